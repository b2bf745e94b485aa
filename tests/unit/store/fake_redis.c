#include "tests/unit/store/fake_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/redis_events.h"

struct fake_redis fake;

static redisReply replies[256], *elements[256];
static char texts[8192];
static size_t reply_count, element_count, text_len;

void fake_begin(void)
{
	fake = (struct fake_redis){0};
	reply_count = element_count = text_len = 0;
}

/* ---- replies --------------------------------------------------------------------------------- */

static redisReply *reply_of(int type)
{
	assert_true(reply_count < sizeof(replies) / sizeof(replies[0]));
	replies[reply_count] = (redisReply){.type = type};
	return &replies[reply_count++];
}

static redisReply *with_text(redisReply *reply, const char *bytes, size_t len)
{
	assert_true(text_len + len + 1 <= sizeof(texts));
	reply->str = memcpy(texts + text_len, bytes, len);
	reply->str[len] = '\0';
	reply->len = len;
	text_len += len + 1;
	return reply;
}

redisReply *reply_bytes(const char *bytes, size_t len)
{
	return with_text(reply_of(REDIS_REPLY_STRING), bytes, len);
}

redisReply *reply_text(const char *text)
{
	return reply_bytes(text, strlen(text));
}

redisReply *reply_status(const char *text)
{
	return with_text(reply_of(REDIS_REPLY_STATUS), text, strlen(text));
}

redisReply *reply_error(const char *text)
{
	return with_text(reply_of(REDIS_REPLY_ERROR), text, strlen(text));
}

redisReply *reply_number(long long number)
{
	redisReply *reply = reply_of(REDIS_REPLY_INTEGER);

	reply->integer = number;
	return reply;
}

redisReply *reply_nil(void)
{
	return reply_of(REDIS_REPLY_NIL);
}

redisReply *reply_array(size_t count, ...)
{
	redisReply *reply = reply_of(REDIS_REPLY_ARRAY);
	va_list of;

	assert_true(element_count + count <= sizeof(elements) / sizeof(elements[0]));
	reply->elements = count;
	reply->element = &elements[element_count];
	element_count += count;
	va_start(of, count);
	for (size_t i = 0; i < count; i++)
		reply->element[i] = va_arg(of, redisReply *);
	va_end(of);
	return reply;
}

/* ---- what a test does ------------------------------------------------------------------------ */

void fake_connect(void)
{
	assert_non_null(fake.peer);
	assert_true(fake.peer->is_open);
	fake.context.data = fake.peer;
	fake.peer->redis = &fake.context;
	fake.peer->calls->enter(fake.peer);
}

void fake_answer(redisReply *reply)
{
	assert_true(fake.answered < fake.count);
	struct fake_command *command = &fake.commands[fake.answered++];
	if (command->answered)
		command->answered(&fake.context, reply, command->arg);
}

void fake_report(redisReply *reply)
{
	struct fake_command *command = &fake.commands[fake.count - 1];

	command->answered(&fake.context, reply, command->arg);
}

const char *fake_waiting(unsigned n)
{
	return fake.answered + n < fake.count ? fake.commands[fake.answered + n].text : "";
}

/* ---- in the place of hiredis ----------------------------------------------------------------- */

static struct fake_command *add_command(redisCallbackFn *answered, void *arg)
{
	if (fake.is_full)
		return NULL;
	assert_true(fake.count < FAKE_COMMANDS);
	struct fake_command *command = &fake.commands[fake.count++];
	*command = (struct fake_command){.answered = answered, .arg = arg};
	return command;
}

static void add_text(struct fake_command *command, const char *text, size_t len)
{
	size_t has = strlen(command->text), room = sizeof(command->text) - 1 - has;

	memcpy(command->text + has, text, len < room ? len : room);
}

/* %s, %u and %b, as hiredis has them. */
int __wrap_redisAsyncCommand(
	redisAsyncContext *redis, redisCallbackFn *answered, void *arg, const char *format, ...);
int __wrap_redisAsyncCommand(
	redisAsyncContext *redis, redisCallbackFn *answered, void *arg, const char *format, ...)
{
	struct fake_command *command = add_command(answered, arg);
	char number[16];
	va_list of;

	assert_ptr_equal(redis, &fake.context);
	if (!command)
		return REDIS_ERR;
	va_start(of, format);
	for (; *format; format++) {
		if (*format != '%') {
			add_text(command, format, 1);
			continue;
		}
		format++;
		if (*format == 'u') {
			snprintf(number, sizeof(number), "%u", va_arg(of, unsigned));
			add_text(command, number, strlen(number));
			continue;
		}
		const char *text = va_arg(of, const char *);
		assert_true(*format == 's' || *format == 'b');
		add_text(command, text, *format == 's' ? strlen(text) : va_arg(of, size_t));
	}
	va_end(of);
	return REDIS_OK;
}

int __wrap_redisAsyncFormattedCommand(redisAsyncContext *redis, redisCallbackFn *answered,
	void *arg, const char *text, size_t len);
int __wrap_redisAsyncFormattedCommand(redisAsyncContext *redis, redisCallbackFn *answered,
	void *arg, const char *text, size_t len)
{
	struct fake_command *command = add_command(answered, arg);

	assert_ptr_equal(redis, &fake.context);
	if (!command)
		return REDIS_ERR;
	add_text(command, text, len);
	return REDIS_OK;
}

void __wrap_redis_events_flush(struct redisAsyncContext *redis);
void __wrap_redis_events_flush(struct redisAsyncContext *redis)
{
	assert_ptr_equal(redis, &fake.context);
	fake.flushed++;
}

/* ---- in the place of redis_peer.c ------------------------------------------------------------ */

void __wrap_redis_peer_init(struct redis_peer *peer, const struct redis_peer_calls *calls,
	struct loop *loop, struct names *names);
void __wrap_redis_peer_init(struct redis_peer *peer, const struct redis_peer_calls *calls,
	struct loop *loop, struct names *names)
{
	*peer = (struct redis_peer){.calls = calls, .loop = loop, .names = names};
}

void __wrap_redis_peer_open(struct redis_peer *peer, const char *host, uint16_t port,
	const char *user, const char *password);
void __wrap_redis_peer_open(struct redis_peer *peer, const char *host, uint16_t port,
	const char *user, const char *password)
{
	assert_false(peer->is_open);
	snprintf(peer->host, sizeof(peer->host), "%s", host);
	peer->port = port;
	peer->user = user;
	peer->password = password;
	peer->is_open = true;
	peer->why[0] = '\0';
	fake.peer = peer;
	fake.opened++;
}

void __wrap_redis_peer_entered(struct redis_peer *peer);
void __wrap_redis_peer_entered(struct redis_peer *peer)
{
	assert_true(peer->is_open);
	fake.entered++;
}

/* hiredis answers all that waits with NULL, by a connection that is nobody's. */
static void fail_commands(void)
{
	fake.context.data = NULL;
	while (fake.answered < fake.count)
		fake_answer(NULL);
}

void __wrap_redis_peer_close(struct redis_peer *peer);
void __wrap_redis_peer_close(struct redis_peer *peer)
{
	if (!peer->is_open)
		return;
	peer->is_open = false;
	if (peer->redis)
		fail_commands();
	peer->redis = NULL;
}

void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why);
void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why)
{
	bool was_connected = peer->redis != NULL;

	if (!peer->is_open)
		return;
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	peer->is_open = false;
	peer->redis = NULL;
	fake.context.data = NULL;
	peer->calls->lost(peer);
	if (was_connected)
		fail_commands();
}

void __wrap_redis_peer_end(struct redis_peer *peer);
void __wrap_redis_peer_end(struct redis_peer *peer)
{
	fake.ended++;
	__wrap_redis_peer_close(peer);
}
