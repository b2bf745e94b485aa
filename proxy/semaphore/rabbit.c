/* See rabbit.h. */
#include "semaphore/rabbit.h"

#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_RABBITMQ_C_AMQP_H
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif

#include "base/container.h"
#include "semaphore/broker_addresses.h"
#include "site/servers_tls.h"

enum { COMMANDS = 1, PROBES = 2 };

/* Bounds that librabbitmq is to agree on: the largest frame, and any number of channels. */
enum { FRAME_BYTES = 131072, CHANNELS_ANY = 0 };

struct rabbit {
	struct broker broker;
	amqp_connection_state_t amqp;
	uint64_t timeout_ms;  /* for each answer */
	uint64_t deadline_ms; /* for all of them, monotonic; 0: none */
	uint64_t published;   /* messages on PROBES: their numbers are those of the confirms */
	struct tls_verdict verdict; /* of its certificate */
	int interrupt_fd; /* the socket's, too, as librabbitmq may close its own; -1: none */
	bool is_lost;
};

/* A batch of probes whose confirms are awaited. */
struct batch {
	const char *const *queues;
	size_t count, confirmed;
	uint64_t first; /* number of the first message */
	bool *present;
	bool *is_confirmed;
};

/* ---- what went wrong ------------------------------------------------------------------------- */

static enum broker_result lose(struct rabbit *rabbit, const char *why)
{
	if (!rabbit->is_lost)
		snprintf(rabbit->broker.why, sizeof(rabbit->broker.why), "%s", why);
	rabbit->is_lost = true;
	return BROKER_LOST;
}

static enum broker_result lose_by_status(struct rabbit *rabbit, int status)
{
	if (status == AMQP_STATUS_TIMEOUT)
		return lose(rabbit, "the broker does not answer");
	if (rabbit->verdict.why[0])
		return lose(rabbit, rabbit->verdict.why);
	return lose(rabbit, amqp_error_string2(status));
}

/* For a line of its own, on terminals, too. */
static void keep_text(struct rabbit *rabbit, amqp_bytes_t text)
{
	char *why = rabbit->broker.why;

	snprintf(why, sizeof(rabbit->broker.why), "%.*s", (int)text.len, (const char *)text.bytes);
	for (; *why; why++)
		if (iscntrl((unsigned char)*why))
			*why = '?';
}

/* ---- how long to wait ------------------------------------------------------------------------ */

static uint64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct timeval timeval_of(uint64_t ms)
{
	return (struct timeval){
		.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

/* When an answer that is awaited from now on is late. */
static uint64_t end_of_wait_ms(const struct rabbit *rabbit)
{
	uint64_t end_ms = monotonic_ms() + rabbit->timeout_ms;

	return rabbit->deadline_ms != 0 && rabbit->deadline_ms < end_ms ? rabbit->deadline_ms
									: end_ms;
}

static uint64_t ms_left(uint64_t end_ms)
{
	uint64_t now_ms = monotonic_ms();

	return end_ms > now_ms ? end_ms - now_ms : 0;
}

static struct timeval time_left(uint64_t end_ms)
{
	return timeval_of(ms_left(end_ms));
}

/* Before each call that waits for an answer. */
static bool may_call(struct rabbit *rabbit)
{
	struct timeval left = time_left(end_of_wait_ms(rabbit));

	if (rabbit->is_lost)
		return false;
	if (amqp_set_rpc_timeout(rabbit->amqp, &left) == AMQP_STATUS_OK)
		return true;
	lose(rabbit, "no memory");
	return false;
}

/* ---- what the broker says -------------------------------------------------------------------- */

static enum broker_result result_of(uint16_t code)
{
	switch (code) {
	case AMQP_NOT_FOUND:
		return BROKER_MISSING;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	default:
		return BROKER_REFUSED;
	}
}

/* The broker has closed a channel, or the connection: `method` says why. A channel is opened again.
 */
static enum broker_result take_close(
	struct rabbit *rabbit, amqp_channel_t channel, const amqp_method_t *method)
{
	amqp_channel_close_ok_t closed = {0};
	enum broker_result result;
	int status;

	if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
		const amqp_connection_close_t *end = method->decoded;
		keep_text(rabbit, end->reply_text);
		rabbit->is_lost = true;
		return BROKER_LOST;
	}
	if (method->id != AMQP_CHANNEL_CLOSE_METHOD)
		return lose(rabbit, "the broker sent an unexpected frame");
	const amqp_channel_close_t *end = method->decoded;
	result = result_of(end->reply_code);
	keep_text(rabbit, end->reply_text);
	status = amqp_send_method(rabbit->amqp, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &closed);
	if (status != AMQP_STATUS_OK)
		return lose_by_status(rabbit, status);
	amqp_maybe_release_buffers(rabbit->amqp);
	if (channel != COMMANDS) {
		rabbit->is_lost = true;
		return BROKER_LOST;
	}
	if (!may_call(rabbit))
		return BROKER_LOST;
	amqp_channel_open(rabbit->amqp, channel);
	if (amqp_get_rpc_reply(rabbit->amqp).reply_type != AMQP_RESPONSE_NORMAL)
		return lose(rabbit, "the broker opens no channel again");
	return result;
}

/* The answer to the last call on `channel`. */
static enum broker_result take_reply(
	struct rabbit *rabbit, amqp_channel_t channel, amqp_rpc_reply_t reply)
{
	switch (reply.reply_type) {
	case AMQP_RESPONSE_NORMAL:
		amqp_maybe_release_buffers(rabbit->amqp);
		return BROKER_DONE;
	case AMQP_RESPONSE_LIBRARY_EXCEPTION:
		return lose_by_status(rabbit, reply.library_error);
	case AMQP_RESPONSE_SERVER_EXCEPTION:
		return take_close(rabbit, channel, &reply.reply);
	case AMQP_RESPONSE_NONE:
		break;
	}
	return lose(rabbit, "the broker's answer is invalid");
}

/* ---- one queue ------------------------------------------------------------------------------- */

static struct rabbit *rabbit_of(struct broker *broker)
{
	return CONTAINER_OF(broker, struct rabbit, broker);
}

/* A slot is a classic queue, whatever the virtual host's default is: RabbitMQ deletes no quorum
 * queue on the condition that it is unused. It takes a queue without a type as a classic one. */
static enum broker_result declare_as(
	struct rabbit *rabbit, const char *queue, bool is_passive, enum broker_queue kind)
{
	amqp_table_entry_t type = {.key = amqp_cstring_bytes("x-queue-type")};
	amqp_table_t arguments = {.num_entries = kind == BROKER_DURABLE, .entries = &type};

	if (!may_call(rabbit))
		return BROKER_LOST;
	type.value.kind = AMQP_FIELD_KIND_UTF8;
	type.value.value.bytes = amqp_cstring_bytes("classic");
	amqp_queue_declare(rabbit->amqp, COMMANDS, amqp_cstring_bytes(queue), is_passive,
		kind == BROKER_DURABLE, kind == BROKER_EXCLUSIVE, false, arguments);
	return take_reply(rabbit, COMMANDS, amqp_get_rpc_reply(rabbit->amqp));
}

static enum broker_result rabbit_declare(
	struct broker *broker, const char *queue, enum broker_queue kind)
{
	return declare_as(rabbit_of(broker), queue, false, kind);
}

static enum broker_result rabbit_look(struct broker *broker, const char *queue)
{
	return declare_as(rabbit_of(broker), queue, true, BROKER_DURABLE);
}

static enum broker_result rabbit_remove(struct broker *broker, const char *queue)
{
	struct rabbit *rabbit = rabbit_of(broker);

	if (!may_call(rabbit))
		return BROKER_LOST;
	amqp_queue_delete(rabbit->amqp, COMMANDS, amqp_cstring_bytes(queue), true, false);
	return take_reply(rabbit, COMMANDS, amqp_get_rpc_reply(rabbit->amqp));
}

/* ---- many queues ----------------------------------------------------------------------------- */

static int publish(struct rabbit *rabbit, const char *queue)
{
	const amqp_basic_properties_t properties = {
		._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG,
		.delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
		.expiration = amqp_cstring_bytes("0"),
	};

	return amqp_basic_publish(rabbit->amqp, PROBES, amqp_empty_bytes, amqp_cstring_bytes(queue),
		true, false, &properties, amqp_empty_bytes);
}

/* A message came back: there is no such queue. */
static void take_return(struct batch *batch, const amqp_basic_return_t *returned)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (strlen(batch->queues[i]) == returned->routing_key.len &&
			memcmp(batch->queues[i], returned->routing_key.bytes,
				returned->routing_key.len) == 0)
			batch->present[i] = false;
	}
}

/* The tag is the broker's: it may be any number. */
static void take_confirm(struct batch *batch, const amqp_basic_ack_t *ack)
{
	for (size_t i = 0; i < batch->count; i++) {
		uint64_t number = batch->first + i;
		if (ack->multiple ? number > ack->delivery_tag : number != ack->delivery_tag)
			continue;
		batch->confirmed += !batch->is_confirmed[i];
		batch->is_confirmed[i] = true;
	}
}

/* What the broker sends until each message is confirmed. A message is returned before that. */
static enum broker_result read_confirms(struct rabbit *rabbit, struct batch *batch)
{
	uint64_t end_ms = end_of_wait_ms(rabbit);

	while (batch->confirmed < batch->count) {
		struct timeval timeout = time_left(end_ms);
		amqp_frame_t frame;
		if (monotonic_ms() >= end_ms)
			return lose_by_status(rabbit, AMQP_STATUS_TIMEOUT);
		int status = amqp_simple_wait_frame_noblock(rabbit->amqp, &frame, &timeout);

		if (status != AMQP_STATUS_OK)
			return lose_by_status(rabbit, status);
		if (frame.frame_type != AMQP_FRAME_METHOD)
			continue; /* the rest of what was returned */
		switch (frame.payload.method.id) {
		case AMQP_BASIC_RETURN_METHOD:
			take_return(batch, frame.payload.method.decoded);
			break;
		case AMQP_BASIC_ACK_METHOD:
			take_confirm(batch, frame.payload.method.decoded);
			break;
		case AMQP_BASIC_NACK_METHOD:
			return lose(rabbit, "the broker failed to look for a queue");
		default:
			return take_close(rabbit, frame.channel, &frame.payload.method);
		}
	}
	amqp_maybe_release_buffers(rabbit->amqp);
	return BROKER_DONE;
}

static enum broker_result rabbit_probe(
	struct broker *broker, const char *const *queues, size_t count, bool *present)
{
	struct rabbit *rabbit = rabbit_of(broker);
	bool found[BROKER_BATCH_MOST], is_confirmed[BROKER_BATCH_MOST];
	struct batch batch = {.queues = queues,
		.count = count,
		.first = rabbit->published + 1,
		.present = found,
		.is_confirmed = is_confirmed};

	if (rabbit->is_lost)
		return BROKER_LOST;
	for (size_t i = 0; i < count; i++) {
		found[i] = true;
		is_confirmed[i] = false;
		int status = publish(rabbit, queues[i]);
		if (status != AMQP_STATUS_OK)
			return lose_by_status(rabbit, status);
		rabbit->published++;
	}
	enum broker_result result = read_confirms(rabbit, &batch);
	if (result == BROKER_DONE)
		memcpy(present, found, count * sizeof(*present));
	return result;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t rabbit_now_ms(struct broker *broker)
{
	(void)broker;
	return monotonic_ms();
}

static void rabbit_pause(struct broker *broker, unsigned ms)
{
	struct timespec pause;
	unsigned random = 0;

	(void)broker;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = 0;
	ms += random % (ms + 1);
	pause = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	nanosleep(&pause, NULL);
}

/* ---- the connection -------------------------------------------------------------------------- */

static const char *password_of(const struct conf_semaphore *semaphore)
{
	if (semaphore->password)
		return semaphore->password;
	return semaphore->broker.password ? semaphore->broker.password : "guest";
}

static enum broker_result log_in(
	struct rabbit *rabbit, const struct conf_semaphore *semaphore, const char *purpose)
{
	const struct conf_broker *broker = &semaphore->broker;
	amqp_table_entry_t entry = {.key = amqp_cstring_bytes("connection_name")};
	amqp_table_t properties = {.num_entries = 1, .entries = &entry};

	entry.value.kind = AMQP_FIELD_KIND_UTF8;
	entry.value.value.bytes = amqp_cstring_bytes(purpose);
	return take_reply(rabbit, 0,
		amqp_login_with_properties(rabbit->amqp, broker->vhost, CHANNELS_ANY, FRAME_BYTES,
			(int)(semaphore->heartbeat_ms / 1000), &properties, AMQP_SASL_METHOD_PLAIN,
			broker->user ? broker->user : "guest", password_of(semaphore)));
}

static enum broker_result open_channels(struct rabbit *rabbit)
{
	for (amqp_channel_t channel = COMMANDS; channel <= PROBES; channel++) {
		if (!may_call(rabbit))
			return BROKER_LOST;
		amqp_channel_open(rabbit->amqp, channel);
		enum broker_result result = take_reply(rabbit, 0, amqp_get_rpc_reply(rabbit->amqp));
		if (result != BROKER_DONE)
			return result;
	}
	if (!may_call(rabbit))
		return BROKER_LOST;
	amqp_confirm_select(rabbit->amqp, PROBES);
	return take_reply(rabbit, 0, amqp_get_rpc_reply(rabbit->amqp));
}

static enum broker_result find_addresses(struct rabbit *rabbit, const struct conf_address *address,
	struct broker_addresses *addresses)
{
	char why[sizeof(rabbit->broker.why)];

	if (address->kind != CONF_ADDRESS_NAME) {
		addresses->count = 1;
		snprintf(addresses->text[0], sizeof(addresses->text[0]), "%s", address->host);
		return BROKER_DONE;
	}
	const char *failure =
		broker_addresses_find(addresses, address->host, ms_left(rabbit->deadline_ms));
	if (!failure)
		return BROKER_DONE;
	snprintf(why, sizeof(why), "host %.80s: %s", address->host, failure);
	return lose(rabbit, why);
}

/* By TLS: librabbitmq would verify the address that it is given, and not the name. */
static enum broker_result new_tls_socket(
	struct rabbit *rabbit, const struct conf_semaphore *semaphore, amqp_socket_t **socket)
{
	const struct conf_tls *tls = &semaphore->tls;
	char why[sizeof(rabbit->broker.why)];

	*socket = amqp_ssl_socket_new(rabbit->amqp);
	if (!*socket)
		return lose(rabbit, "no memory");
	struct tls_client_settings settings = servers_tls_settings(
		tls, tls->name ? tls->name : semaphore->broker.address.host, NULL);
	amqp_ssl_socket_set_verify_hostname(*socket, 0);
	amqp_ssl_socket_set_verify_peer(*socket, tls->verifies);
	if (!tls_client_set_up(amqp_ssl_socket_get_context(*socket), &settings, &rabbit->verdict,
		    why, sizeof(why)))
		return lose(rabbit, why);
	return BROKER_DONE;
}

/* To the first address that can be connected to; each has an equal part of the time left. */
static enum broker_result open_socket(struct rabbit *rabbit, const struct conf_semaphore *semaphore)
{
	const struct conf_address *address = &semaphore->broker.address;
	enum broker_result result = BROKER_DONE;
	int status = AMQP_STATUS_SOCKET_ERROR;
	amqp_socket_t *socket = NULL;
	struct broker_addresses to;

	if (semaphore->broker.has_tls)
		result = new_tls_socket(rabbit, semaphore, &socket);
	else if (!(socket = amqp_tcp_socket_new(rabbit->amqp)))
		result = lose(rabbit, "no memory");
	if (result == BROKER_DONE)
		result = find_addresses(rabbit, address, &to);
	if (result != BROKER_DONE)
		return result;
	for (size_t i = 0; i < to.count && status != AMQP_STATUS_OK; i++) {
		struct timeval left = timeval_of(ms_left(rabbit->deadline_ms) / (to.count - i));
		status = amqp_socket_open_noblock(socket, to.text[i], address->port, &left);
	}
	if (status == AMQP_STATUS_SOCKET_ERROR)
		return lose(rabbit, "no connection can be made");
	if (status != AMQP_STATUS_OK)
		return lose_by_status(rabbit, status);
	rabbit->interrupt_fd = fcntl(amqp_get_sockfd(rabbit->amqp), F_DUPFD_CLOEXEC, 0);
	return rabbit->interrupt_fd < 0 ? lose(rabbit, strerror(errno)) : BROKER_DONE;
}

static enum broker_result connect_to(
	struct rabbit *rabbit, const struct conf_semaphore *semaphore, const char *purpose)
{
	struct timeval left;

	rabbit->timeout_ms = semaphore->timeout_ms;
	rabbit->deadline_ms = end_of_wait_ms(rabbit);
	enum broker_result result = open_socket(rabbit, semaphore);
	if (result != BROKER_DONE)
		return result;
	left = time_left(rabbit->deadline_ms);
	amqp_set_handshake_timeout(rabbit->amqp, &left);
	if (!may_call(rabbit))
		return BROKER_LOST;
	result = log_in(rabbit, semaphore, purpose);
	return result == BROKER_DONE ? open_channels(rabbit) : result;
}

struct rabbit *rabbit_open(
	const struct conf_semaphore *semaphore, const char *purpose, char *why, size_t why_bytes)
{
	static const struct broker_calls calls = {rabbit_declare, rabbit_look, rabbit_remove,
		rabbit_probe, rabbit_now_ms, rabbit_pause};
	struct rabbit *rabbit = calloc(1, sizeof(*rabbit));

	if (rabbit)
		rabbit->amqp = amqp_new_connection();
	if (!rabbit || !rabbit->amqp) {
		snprintf(why, why_bytes, "no memory");
		free(rabbit);
		return NULL;
	}
	rabbit->broker.calls = &calls;
	rabbit->interrupt_fd = -1;
	if (connect_to(rabbit, semaphore, purpose) == BROKER_DONE)
		return rabbit;
	snprintf(why, why_bytes, "%s", rabbit->broker.why);
	rabbit_close(rabbit);
	return NULL;
}

void rabbit_set_timeout(struct rabbit *rabbit, uint64_t timeout_ms)
{
	rabbit->timeout_ms = timeout_ms;
	rabbit->deadline_ms = 0;
}

uint64_t rabbit_heartbeat_ms(const struct rabbit *rabbit)
{
	return (uint64_t)amqp_get_heartbeat(rabbit->amqp) * 1000;
}

/* What the broker has sent without being asked: heartbeats, which librabbitmq takes itself, and the
 * end of the connection. */
static bool take_unasked(struct rabbit *rabbit)
{
	struct timeval none = {0};
	amqp_frame_t frame;
	int status;

	status = amqp_simple_wait_frame_noblock(rabbit->amqp, &frame, &none);
	if (status == AMQP_STATUS_OK) {
		/* A channel that ends by itself is not to be gone on with either. */
		if (frame.frame_type == AMQP_FRAME_METHOD)
			take_close(rabbit, frame.channel, &frame.payload.method);
		else
			lose(rabbit, "the broker sent what was not asked for");
		rabbit->is_lost = true;
		return false;
	}
	if (status == AMQP_STATUS_TIMEOUT)
		return true;
	lose_by_status(rabbit, status);
	return false;
}

bool rabbit_wait(struct rabbit *rabbit, const int wakes[RABBIT_WAKES], uint64_t timeout_ms)
{
	struct pollfd fds[1 + RABBIT_WAKES] = {{.fd = -1, .events = POLLIN},
		{.fd = wakes[0], .events = POLLIN}, {.fd = wakes[1], .events = POLLIN}};
	bool has_more =
		rabbit && (amqp_frames_enqueued(rabbit->amqp) || amqp_data_in_buffer(rabbit->amqp));

	if (rabbit && rabbit->is_lost)
		return false;
	if (rabbit)
		fds[0].fd = amqp_get_sockfd(rabbit->amqp);
	if (!has_more &&
		poll(fds, 1 + RABBIT_WAKES, timeout_ms < 60000 ? (int)timeout_ms : 60000) <= 0)
		return true;
	return !has_more && fds[0].revents == 0 ? true : !rabbit || take_unasked(rabbit);
}

void rabbit_interrupt(const struct rabbit *rabbit)
{
	/* It fails when the connection has ended. */
	shutdown(rabbit->interrupt_fd, SHUT_RDWR);
}

struct broker *rabbit_broker(struct rabbit *rabbit)
{
	return &rabbit->broker;
}

void rabbit_close(struct rabbit *rabbit)
{
	if (may_call(rabbit))
		amqp_connection_close(rabbit->amqp, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(rabbit->amqp);
	if (rabbit->interrupt_fd >= 0)
		close(rabbit->interrupt_fd);
	free(rabbit);
}
