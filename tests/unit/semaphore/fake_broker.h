/*
 * A broker in memory, in the place of RabbitMQ: its queues, and the connections they belong to. A
 * test may make it lose a connection before or behind any call, and let others act in a pause.
 */
#ifndef TESTS_FAKE_BROKER_H
#define TESTS_FAKE_BROKER_H

#include "semaphore/broker.h"

enum { FAKE_QUEUES_MOST = 4096, FAKE_NOBODY = 0 };

struct fake_queue {
	char name[96];
	bool is_durable;
	unsigned owner; /* the connection it is exclusive to; FAKE_NOBODY: none */
};

struct fake_server {
	struct fake_queue queues[FAKE_QUEUES_MOST];
	size_t count;
	uint64_t now_ms;
	unsigned pauses, declares, removes, probes;
	/* In each pause; may be NULL. */
	void (*on_pause)(struct fake_server *server, void *user);
	void *user;
};

/* A connection. */
struct fake_broker {
	struct broker broker;
	struct fake_server *server;
	unsigned id; /* from 1 on */
	bool is_lost;
	unsigned calls_left;    /* the connection is lost at the end of so many calls; 0: never */
	bool loses_request;     /* and the last of them does not reach the server */
	bool may_not_configure; /* declarations and deletions are refused */
};

void fake_connect(struct fake_broker *connection, struct fake_server *server, unsigned id);

/* The connection ends: what was exclusive to it is deleted. */
void fake_disconnect(struct fake_broker *connection);

/* Any queue, as if another program had declared it. */
void fake_put(struct fake_server *server, const char *name, bool is_durable, unsigned owner);
bool fake_has(const struct fake_server *server, const char *name);
/* Deletes it; false when it is not there. */
bool fake_take(struct fake_server *server, const char *name);

#endif
