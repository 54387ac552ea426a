/* SPDX-License-Identifier: MIT */
/*
 * pread and pwrite: as many threads as requests may be in flight, each taking
 * requests from the core. With one, it is the caller and nothing is handed over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "loop.h"

#define THREADS_MAX 512
#define STACK_BYTES (256 * 1024)

struct pool {
	struct loop loop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t idle;
	int64_t alarm_ns; /* the earliest time an idle thread wakes by itself */
	int error;
};

static void wait_for_change(struct pool *pool, int64_t wake)
{
	struct timespec when = { wake / 1000000000, wake % 1000000000 };

	pool->idle++;
	if (wake >= pool->alarm_ns) { /* another thread wakes in time */
		pthread_cond_wait(&pool->changed, &pool->lock);
	} else {
		pool->alarm_ns = wake;
		pthread_cond_clockwait(&pool->changed, &pool->lock, CLOCK_MONOTONIC, &when);
		if (pool->alarm_ns == wake)
			pool->alarm_ns = INT64_MAX;
	}
	pool->idle--;
}

/* Leave an idle thread to whatever this one does not take. */
static void call_for_help(struct pool *pool, int64_t now)
{
	int64_t wake = INT64_MAX;

	if (!pool->idle)
		return;
	if (loop_ready(&pool->loop, now, &wake) || wake < pool->alarm_ns)
		pthread_cond_signal(&pool->changed);
}

static void stop(struct pool *pool, int error)
{
	pool->error = error;
	pool->loop.stopping = true;
	pthread_cond_broadcast(&pool->changed);
}

static void *work(void *argument)
{
	struct pool *pool = argument;
	struct loop *loop = &pool->loop;

	pthread_mutex_lock(&pool->lock);
	while (!loop_finished(loop)) {
		int64_t now = clock_ns(), wake = INT64_MAX;
		struct slot *slot = loop_take(loop, now, &wake);

		if (!slot && !loop->in_flight && wake == INT64_MAX && !loop->held &&
		    !loop_finished(loop)) {
			stop(pool, -EDEADLK);
			break;
		}
		if (!slot) {
			wait_for_change(pool, loop_wake(loop, wake));
			continue;
		}
		call_for_help(pool, now);
		pthread_mutex_unlock(&pool->lock);
		perform(loop, slot);
		loop_travel(loop, slot);
		pthread_mutex_lock(&pool->lock);
		loop_complete(loop, slot);
	}
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Start up to `count` threads; fewer are a smaller queue depth, which the report says. */
static uint32_t start_threads(struct pool *pool, pthread_t *threads, uint32_t count)
{
	pthread_attr_t attributes;
	uint32_t started = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (started < count && !pthread_create(&threads[started], &attributes, work, pool))
		started++;
	pthread_attr_destroy(&attributes);
	return started;
}

static int drive(struct pool *pool)
{
	uint32_t helpers = pool->loop.slot_count ? pool->loop.slot_count - 1 : 0, started;
	pthread_t *threads = calloc(helpers + 1, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	pthread_mutex_lock(&pool->lock);
	started = start_threads(pool, threads, helpers);
	if (pool->loop.report->in_flight_limit > started + 1)
		pool->loop.report->in_flight_limit = started + 1;
	loop_begin(&pool->loop);
	pthread_mutex_unlock(&pool->lock);
	work(pool);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	loop_end(&pool->loop);
	free(threads);
	return pool->error;
}

int loop_run_posix(const struct loop_job *job, const struct loop_options *options,
		   struct tape *tape, struct loop_timing *timings, struct loop_report *report)
{
	struct pool pool = { .alarm_ns = INT64_MAX };
	int error = loop_setup(&pool.loop, job, options, tape, timings, report, THREADS_MAX);

	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.changed, NULL);
	if (!error)
		error = drive(&pool);
	pthread_cond_destroy(&pool.changed);
	pthread_mutex_destroy(&pool.lock);
	loop_teardown(&pool.loop);
	return error;
}
