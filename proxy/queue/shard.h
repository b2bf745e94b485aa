/* shard: a part of all sessions, under one mutex.
 *
 *   key.word[1] -> shard -> key.word[0] -> bucket -> session -> session
 *                    |-- free list <- chunks of sessions, never given back before the end
 *                    |-- idle lists, one for each idle time, oldest first: [S][S][S]
 *                    `-- counts
 *
 * Idle times are few (one a route), so a list for each keeps them sorted by appending; nothing is
 * moved when time passes. An idle time that finds no list of its own shares the next longer one, or
 * the longest. The table doubles when full, a shard at a time: with 256 of them a million sessions
 * means moving 4096 entries. Private to the room; everything here with the mutex held. */
#ifndef SLUICE_QUEUE_SHARD_H
#define SLUICE_QUEUE_SHARD_H

#include <pthread.h>
#include <stdatomic.h>

#include "queue/session.h"

#define SHARD_IDLE_LISTS 16

struct idle_list {
	uint64_t
		idle_ns; /* of the list; that of a shared one may be longer than its sessions ask */
	struct session *head, *tail;
};

struct session_chunk {
	struct session_chunk *next;
	struct session sessions[];
};

struct shard {
	_Alignas(64) pthread_mutex_t mutex;
	struct session **buckets;
	uint64_t mask; /* buckets - 1 */
	uint64_t sessions;
	struct session *free;
	struct session_chunk *chunks;
	struct queue_counts counts;
	unsigned idle_lists; /* in use */
	struct idle_list idle[SHARD_IDLE_LISTS];

	struct session *held; /* whose next write waits for reads, in no order */

	/* When the first idle session may be over, or the first held one may go: exact or early.
	 * Written with the mutex held, read without. */
	_Atomic uint64_t deadline_ns;
};

/* 0, or -1 without memory. */
int shard_init(struct shard *shard);
void shard_free(struct shard *shard);

struct session *shard_find(struct shard *shard, struct session_key key);

/* A new open session in the table, NULL without memory. */
struct session *shard_open(struct shard *shard, struct session_key key);

/* Out of the table and back to the free list. It must be empty and in no idle list. */
void shard_release(struct shard *shard, struct session *session);

/* The idle timer of one session: starts now, or stops if it runs. Starting returns true if that
 * made the shard's deadline earlier. */
bool shard_idle_start(struct shard *shard, struct session *session, uint64_t now_ns);
void shard_idle_stop(struct shard *shard, struct session *session);

/* The same of the held ones, whose time is in idle_deadline_ns: they are not idle. */
bool shard_hold_start(struct shard *shard, struct session *session, uint64_t deadline_ns);
void shard_hold_stop(struct shard *shard, struct session *session);

/* A held session whose time has come, out of the list; NULL if there is none; then deadline_ns is
 * made exact. */
struct session *shard_hold_due(struct shard *shard, uint64_t now_ns);

/* A session whose idle time is over, NULL if there is none; then deadline_ns is made exact. */
struct session *shard_idle_due(struct shard *shard, uint64_t now_ns);

/* The session that is idle and would be over first, NULL if none is idle. */
struct session *shard_idle_oldest(struct shard *shard);

#endif
