/* SPDX-License-Identifier: MIT */
#include "header.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "proc_files.h"

/* Room for argv: the other texts of the header need less than the rest. */
#define ARGV_BYTES_MAX 32768

#define NAME(id, name) name "\0"
static const char op_names[] = FOR_EACH_OP(NAME);
static const char api_names[] = FOR_EACH_API(NAME);
static const char offset_source_names[] = FOR_EACH_OFFSET_SOURCE(NAME);
#undef NAME

/* What launchers call a rank, the number of ranks, and where a rank runs. */
static const char *const rank_variables[] = {
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	"PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
	"MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_RANKID", "PALS_LOCAL_RANKID",
	"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID",
	"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID",
	"TORCHELASTIC_RUN_ID",
};

/* Where the next text of the header goes. */
struct writer {
	char *base;
	uint32_t at;
};

uint64_t header_start_ticks(void)
{
	char stat[1024];
	long bytes = proc_read("/proc/self/stat", stat, sizeof(stat) - 1, NULL);
	uint64_t ticks = 0;
	char *at;

	if (bytes <= 0)
		return 0;
	stat[bytes] = '\0';
	at = strrchr(stat, ')'); /* the name before it may hold spaces and brackets */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return 0;
	for (at++; *at >= '0' && *at <= '9'; at++)
		ticks = ticks * 10 + (uint64_t)(*at - '0');
	return ticks;
}

/* Append at most the room left; returns the bytes taken. */
static uint32_t put(struct writer *writer, const char *text, size_t bytes)
{
	size_t room = LOG_HEADER_BYTES - writer->at;

	if (bytes > room)
		bytes = room;
	memcpy(writer->base + writer->at, text, bytes);
	writer->at += (uint32_t)bytes;
	return (uint32_t)bytes;
}

static void put_ranks(struct log_header *header, struct writer *writer)
{
	header->rank_at = writer->at;
	for (size_t i = 0; i < sizeof(rank_variables) / sizeof(*rank_variables); i++) {
		const char *value = getenv(rank_variables[i]);

		if (!value || strlen(value) > 256)
			continue;
		put(writer, rank_variables[i], strlen(rank_variables[i]));
		put(writer, "=", 1);
		put(writer, value, strlen(value) + 1);
	}
	header->rank_bytes = writer->at - header->rank_at;
}

static void put_names(struct log_header *header, struct writer *writer)
{
	header->op_names_at = writer->at;
	header->op_names_count = OP_COUNT;
	put(writer, op_names, sizeof(op_names));
	header->api_names_at = writer->at;
	header->api_names_count = API_COUNT;
	put(writer, api_names, sizeof(api_names));
	header->offset_source_names_at = writer->at;
	header->offset_source_names_count = OFFSET_SOURCE_COUNT;
	put(writer, offset_source_names, sizeof(offset_source_names));
}

static void put_process(struct log_header *header, struct writer *writer)
{
	long bytes;

	header->executable_at = writer->at;
	header->executable_bytes =
		(uint32_t)path_read_link("/proc/self/exe", writer->base + writer->at, PATH_MAX);
	writer->at += header->executable_bytes;
	header->argv_at = writer->at;
	bytes = proc_read("/proc/self/cmdline", writer->base + writer->at, ARGV_BYTES_MAX, NULL);
	header->argv_bytes = bytes > 0 ? (uint32_t)bytes : 0;
	writer->at += header->argv_bytes;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void header_fill(struct log_header *header, const char *path)
{
	struct writer writer = {(char *)header, sizeof(*header)};
	char *boot_id = (char *)header->boot_id;

	header->version = LOG_VERSION;
	header->header_bytes = LOG_HEADER_BYTES;
	header->chunk_bytes = LOG_CHUNK_BYTES;
	header->slot_bytes = LOG_SLOT_BYTES;
	header->pid = (uint32_t)RAW(SYS_getpid);
	header->parent_pid = log_parent_pid();
	header->pid_start_ticks = header_start_ticks();
	proc_read("/proc/sys/kernel/random/boot_id", boot_id, sizeof(header->boot_id) - 1, NULL);
	boot_id[strcspn(boot_id, "\n")] = '\0';

	put_names(header, &writer);
	header->path_at = writer.at;
	header->path_bytes = put(&writer, path, strlen(path) + 1);
	put_ranks(header, &writer);
	put_process(header, &writer);

	header->monotonic_ns = clock_ns(CLOCK_MONOTONIC);
	header->realtime_ns = clock_ns(CLOCK_REALTIME);
	header->magic = LOG_MAGIC;
}
