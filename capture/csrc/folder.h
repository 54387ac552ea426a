/* SPDX-License-Identifier: MIT */
/* Syncs of folders: what makes the names in them durable. */
#ifndef IOTRACE_FOLDER_H
#define IOTRACE_FOLDER_H

#include "request.h"

/*
 * Append the sync of a descriptor whose file is not recorded, under the folder's path, if it is a
 * folder in scope; NULL: it is not, or was dropped. `record` lacks what says that it is a folder.
 */
const struct record *folder_append_sync(const struct open_file *file, int fd,
					struct record record);

#endif
