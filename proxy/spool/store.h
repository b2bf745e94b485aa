/*
 * The room that all spools of a process share: so much memory, so much of a folder's file system,
 * and so many open files. What is taken of it is given back when a spool needs it no more; what is
 * not there is refused, and the spool is full earlier.
 *
 *   spool --store_take_memory, store_take_disk--> store --> the folder's file system
 *
 * Any thread, without a lock: the three counts are atomic, and a bound is exceeded by nobody.
 */
#ifndef SPOOL_STORE_H
#define SPOOL_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The purpose of a spool. Spools of GATEWAY have memory of their own, as a gateway's socket ends
 * without its answers, and bodies that fill the rest can pass more slowly instead. */
enum spool_use { SPOOL_REQUEST, SPOOL_RESPONSE, SPOOL_GATEWAY, SPOOL_USES };

/* Answers for gateways have as much memory as all bodies together, and at least so many bytes. */
#define STORE_GATEWAY_LEAST (16 * 1024 * 1024ULL)

/* Why a spool got no more room: one of these is at its bound, or the disk is full. */
enum store_bound { STORE_MEMORY, STORE_DISK, STORE_FILES, STORE_BOUNDS };

struct spool_store {
	/* bytes; changed by store_set_bounds at any time */
	_Atomic uint64_t memory_max, gateway_max, disk_max;
	unsigned files_max; /* set before the first file is opened */
	char *folder;       /* NULL: no files */

	_Atomic uint64_t memory, disk; /* bytes that spools hold now, but those of GATEWAY */
	struct {
		_Atomic uint64_t memory, disk; /* the part of spools of this use */
		_Atomic uint64_t filled;       /* spools of it that reached their own limits */
	} uses[SPOOL_USES];
	_Atomic uint64_t refused[STORE_BOUNDS]; /* spools that got no room because of it */
	atomic_uint files;
	_Atomic uint64_t reported_ns; /* the last line about the folder */
	atomic_uint unreported;       /* failures since */
};

/* `folder` is where files are made, NULL for none; it is copied. No files before files_max is set,
 * how many of them may be open at once. False without memory. */
bool store_init(struct spool_store *store, const char *folder);
/* No spool may be left. */
void store_end(struct spool_store *store);

/* Bounds of all spools together. Spools keep what they hold already. */
void store_set_bounds(struct spool_store *store, uint64_t memory_max, uint64_t disk_max);

/* False when so many bytes are not left. */
bool store_take_memory(struct spool_store *store, enum spool_use use, uint64_t bytes);
/* Takes them even if that exceeds the bound: for what is read back from a file, and for the first
 * bytes of an answer for a gateway. */
void store_force_memory(struct spool_store *store, enum spool_use use, uint64_t bytes);
void store_give_memory(struct spool_store *store, enum spool_use use, uint64_t bytes);

/* A new empty file that no folder lists, so that it vanishes with its last descriptor, also after a
 * kill. -1 when there is no folder, too many are open (errno is EMFILE), or the system refuses,
 * which is logged. */
int store_open_file(struct spool_store *store);

/* Makes the file `bytes` longer than `size` and reserves them on the disk, so that a write there
 * does not fail for lack of space. False when the bound or the disk (logged) does not allow it. */
bool store_grow_file(
	struct spool_store *store, enum spool_use use, int fd, uint64_t size, uint64_t bytes);

/* Closes a file of `size` bytes. */
void store_close_file(struct spool_store *store, enum spool_use use, int fd, uint64_t size);

/* Reports a failure of a file: a line in the error log, at most one in ten seconds. */
void store_report(struct spool_store *store, const char *what, int error);

#endif
