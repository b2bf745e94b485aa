/*
 * A spool: bytes that come faster than they are taken. They go in at one end and come out at the
 * other, in order; in memory up to a size, beyond it in a temporary file.
 *
 *   spool_put --> [ file: the newest, a ring ] --> [ memory: the oldest ] --> spool_front,
 * spool_drop only as long as memory is full or the file holds something
 *
 * The bytes of a spool are bounded by its own sizes, those of all by their store (spool/store.h): a
 * put takes as much as there is room for, and the rest is the caller's to keep. Room in a file is
 * reserved on the disk before it is offered, so a full disk makes a spool full and loses nothing.
 *
 * Reads and writes of the file are done at once, on the calling thread: they are copies from and to
 * the page cache unless the system is short of memory.
 *
 * A file may fail: what can't be written is not taken, and nothing more is. What can't be read is a
 * loss. The call that finds it reports it, and so does every later one: a spool that is lost holds
 * nothing, takes nothing and is never to be mistaken for one that is empty.
 *
 * Invariant: the file holds nothing unless memory holds something, after each call that returns.
 */
#ifndef SPOOL_SPOOL_H
#define SPOOL_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "spool/store.h"

struct spool;

/* The most that one spool holds, in bytes, and of what. */
struct spool_limits {
	uint64_t memory, file;
	enum spool_use use;
};

/* Empty; takes nothing of the store yet. NULL without memory. */
struct spool *spool_new(struct spool_store *store, struct spool_limits limits);
/* Gives back all that it has of the store. NULL is ignored. */
void spool_free(struct spool *spool);

/* How many bytes it holds. */
uint64_t spool_bytes(const struct spool *spool);
/* How many more it holds at most, if the store has room for them. */
uint64_t spool_space(const struct spool *spool);

/* How many of `wanted` (at least 1) bytes the next spool_put takes: at least 1, or 0 when it is
 * full. Fewer than wanted does not mean that it is full. */
size_t spool_room(struct spool *spool, size_t wanted);

/* Copies bytes in and returns how many: all, or as many as there was room for. Fewer than
 * spool_room returned only if a file can't be written, which is logged; spool_failed is true from
 * then on. 0 when it can't be read either: spool_is_lost. */
size_t spool_put(struct spool *spool, struct slice bytes);

/* The oldest bytes, a run of them, until spool_drop or spool_free; empty when there are none. */
struct slice spool_front(const struct spool *spool);

/* Forgets the oldest `count` bytes, at most as many as spool_front shows. False when what comes
 * after them can't be read from the file, which is logged: all of that is lost. */
bool spool_drop(struct spool *spool, size_t count);

/* Could its file not be written or read? */
bool spool_failed(const struct spool *spool);

/* Could its file not be read? Then bytes that it took are lost. */
bool spool_is_lost(const struct spool *spool);

#endif
