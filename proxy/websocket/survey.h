/*
 * Finding sockets of all workers, or one by its id, from the main thread: a survey goes from worker
 * to worker, on each of which it walks (sockets.h), and comes back.
 *
 *   main: survey_begin --> worker 0: visit those that fit --> worker 1 ... --> main: done
 *
 * It is on one thread at a time, so what `visit` writes needs no lock.
 */
#ifndef WEBSOCKET_SURVEY_H
#define WEBSOCKET_SURVEY_H

#include <stdint.h>

#include "loop/message.h"
#include "websocket/filter.h"
#include "websocket/sockets.h"
#include "channels/meta.h"
#include "websocket/state.h"
#include "websocket/send.h"

struct node;

struct socket_survey {
	struct socket_filter filter;
	uint64_t id;    /* of the only one that is looked for, or 0 */
	uint64_t after; /* 0, or where an earlier survey ended: it continues after that socket */
	/* On the thread of the socket's worker, for each that fits, of one worker from the youngest
	 * on. May end the socket. False: no further one. */
	bool (*visit)(struct socket_survey *survey, struct websocket *socket);
	/* On the main thread, once: the survey's memory is its owner's again. */
	void (*done)(struct socket_survey *survey);

	/* private */
	struct node *node;
	struct message message;
	struct socket_walk walk;
	unsigned worker;
	bool is_over;
};

/* On the main thread. All workers must turn until `done`: where one has ended, it is not called. */
void survey_begin(struct socket_survey *survey, struct node *node);

/* ---- view ----------------------------------------------------------------------------------- */

/* The state of a socket that an operator sees. */

#define VIEW_NAME_BYTES 256
#define VIEW_ID_BYTES   36 /* of a Connection-Id */

struct socket_view {
	uint64_t id;
	char type[VIEW_NAME_BYTES], route[VIEW_NAME_BYTES];
	uint64_t caller;     /* as identity_short writes it */
	uint64_t session[2]; /* both 0: none */
	uint8_t address[16];
	const char *state; /* a constant: open, draining, closing */
	uint64_t age_ms, idle_ms;
	struct socket_traffic received, sent;
	uint64_t queued, queued_bytes;
	uint64_t refused, delayed;          /* of the messages received */
	char connection[VIEW_ID_BYTES + 1]; /* of a gateway's: its Connection-Id; "": none */
	struct meta meta;                   /* the same: copies, as many as there is memory for */
};

/* socket_view_clear is due. On the thread of the socket's worker. */
void socket_view(const struct websocket *socket, struct socket_view *view);

/* Frees what it holds. Any thread. */
void socket_view_clear(struct socket_view *view);

/* The type that its route names, or the route. */
const char *socket_type(const struct websocket *socket);
/* Without a message either way; since when it is open. */
uint64_t socket_idle_ms(const struct websocket *socket);
uint64_t socket_age_ms(const struct websocket *socket);
/* Whose it is: the caller as throttles know it, and the session's key (both 0: none). */
uint64_t socket_caller(const struct websocket *socket);
void socket_session(const struct websocket *socket, uint64_t key[static 2]);
/* The caller's, 16 bytes. */
const uint8_t *socket_address(const struct websocket *socket);

/* ---- command -------------------------------------------------------------------------------- */

/* An operator's command to a socket. */

enum socket_command_kind {
	SOCKET_POST,  /* a message, to the end of its queue */
	SOCKET_SEND,  /* a message, before all that waits in the normal lane */
	SOCKET_CLOSE, /* a close frame both ways, and close_timeout for the answers */
	SOCKET_ABORT, /* cut, with a reset where there is one */
	SOCKET_DRAIN, /* no more messages of the client; what waits is delivered, then 1001 */
	SOCKET_COMMANDS,
};

struct socket_command {
	enum socket_command_kind kind;
	struct shared_frame *frame; /* POST, SEND */
	struct send_report *report; /* the same; NULL: no request waits for it */
	uint16_t code;              /* CLOSE */
	uint8_t reason_len;
	char reason[FRAME_CONTROL_BYTES - 2];
};

/* Does it end its sockets? */
static inline bool socket_command_ends(const struct socket_command *command)
{
	return command->kind != SOCKET_POST && command->kind != SOCKET_SEND;
}

/* Its immediate result. */
enum socket_command_result {
	SOCKET_COMMAND_DONE,    /* with a message: it is queued */
	SOCKET_COMMAND_DROPPED, /* a message: the queue is full */
	SOCKET_COMMAND_GONE,    /* the socket closes already */
	SOCKET_COMMAND_RESULTS,
};

/* On the thread of the socket's worker. An abort ends the socket; the others do what is to be done
 * in this turn or later. */
enum socket_command_result socket_run_command(
	struct websocket *socket, const struct socket_command *command);

#endif
