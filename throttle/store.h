/*
 * Where a table's memory comes from: the one file here that knows of files.
 *
 * A store is a block of memory, anonymous or shared with a file. Only what was reserved of it may
 * be used: that has its blocks on the disk, so that a full disk is noticed when it is reserved and
 * never while it is used. The rest takes no room, neither on the disk nor in memory.
 */
#ifndef THROTTLE_STORE_H
#define THROTTLE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store {
	void *memory;
	uint64_t bytes;
	int file; /* -1: anonymous */
};

/* All 0 or errno. Nothing of a new one is reserved. */
int store_anonymous(struct store *store, uint64_t bytes);
/* Memory that another process can open by the descriptor store->file. */
int store_shareable(struct store *store, uint64_t bytes);
int store_create(struct store *store, const char *folder, const char *name, uint64_t bytes);
/* ENOENT: there is none; ENOTSUP: it is no regular file or too short for `least_bytes`. */
int store_open(struct store *store, const char *folder, const char *name, uint64_t least_bytes);
/* The memory behind a descriptor of store_shareable's, which this process has inherited and which
 * stays open; with locks of its own. ENOTSUP as above. */
int store_open_shared(struct store *store, int shared, uint64_t least_bytes);
void store_close(struct store *store);

/* Makes this part, of whole pages, usable: zero where it was not before. */
int store_reserve(struct store *store, uint64_t at, uint64_t bytes);
/* Its contents are lost, its room is given back. */
void store_release(struct store *store, uint64_t at, uint64_t bytes);
/* Has an opened one fewer bytes on the disk than these? Then parts must be reserved again. */
bool store_has_holes(const struct store *store, uint64_t bytes);

/* All of this memory is in use by now: makes the page of that number in it a large one, if it has
 * so many; fewer page table walks. Only a wish. */
void store_use_large_page(void *memory, uint64_t bytes, uint64_t number);

int store_rename(const char *folder, const char *from, const char *to);
int store_remove(const char *folder, const char *name);

/* Is it the file that this name is of now? Memory alone: yes. */
bool store_is_named(const struct store *store, const char *folder, const char *name);

/* Locks a folder against others that open or change tables in it, and waits for them if it may. 0
 * or errno: EWOULDBLOCK, another has it. */
int store_lock(const char *folder, bool may_wait, int *lock);
void store_unlock(int lock); /* -1 is ignored */

/* Locks one of a file's lanes for this process until it ends, however it does. False: another has
 * it. Memory alone: true. */
bool store_take_lane(struct store *store, unsigned lane);
void store_free_lane(struct store *store, unsigned lane);

/* Locks memory with a descriptor as store_lock does a folder. False: another has it, and
 * `may_wait` is not set. Memory alone: true. */
bool store_lock_shared(struct store *store, bool may_wait);
void store_unlock_shared(struct store *store);

/* Random bytes from the system. */
int store_random(void *bytes, size_t count);

#endif
