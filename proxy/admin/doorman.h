/*
 * Keeps the admin server reachable: when many are connected, the one that has waited longest since
 * its last complete request (or since it connected) is cut for the next. So half requests, however
 * many and however slowly they continue, lock no other client out.
 *
 * One a daemon of libmicrohttpd, whose single thread calls all of it.
 */
#ifndef ADMIN_DOORMAN_H
#define ADMIN_DOORMAN_H

struct visitor;

struct doorman {
	struct visitor *first, *last; /* who waited longest comes first */
	unsigned count;
	unsigned most; /* beyond which one is cut */
};

/* A connection on the socket `fd`, which stays the caller's. NULL without memory: not counted. */
struct visitor *doorman_enter(struct doorman *doorman, int fd);
/* It has made a complete request. NULL is ignored. */
void doorman_served(struct doorman *doorman, struct visitor *visitor);
/* It is closed; the socket not yet. Frees it. NULL is ignored. */
void doorman_leave(struct doorman *doorman, struct visitor *visitor);

#endif
