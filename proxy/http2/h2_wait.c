#include "http2/h2_wait.h"

#include "http2/h2_connection.h"
#include "http2/h2_session.h"

/* How often a client that still takes a response is looked at. */
#define LOOK_MS 1000

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t idle_ms(const struct h2_connection *c)
{
	uint64_t idle_ms = c->listener->conf->idle_timeout_ms;

	return c->worker->draining
		       ? least(least(idle_ms, H2_DRAIN_IDLE_MS),
				 site_part(c->worker)->use->site->conf->shutdown_timeout_ms / 2)
		       : idle_ms;
}

/* Something of a head or a greeting is here, and the rest is to come. */
static bool wait_for_head(struct h2_connection *c, uint64_t now_ms)
{
	uint64_t timeout_ms = c->listener->conf->header_timeout_ms;

	if (c->state == H2_GREETING && c->in.at)
		wait_for(&c->wait, WAIT_HEAD, 0, c->since_ms + timeout_ms, now_ms);
	else if (c->state == H2_GREETING)
		return false;
	else if (c->head.is_open)
		wait_for(&c->wait, WAIT_HEAD, 2 * c->begun, c->head_since_ms + timeout_ms, now_ms);
	else if (!c->settings_known && c->begun > 0)
		wait_for(&c->wait, WAIT_HEAD, 1, c->since_ms + timeout_ms, now_ms);
	else
		return false;
	return true;
}

void h2_wait(struct h2_connection *c)
{
	uint64_t now_ms = worker_now_ms(c->worker);
	bool drains = c->worker->draining;

	if (c->state == H2_LINGERING || c->state == H2_CLOSED)
		return;
	if (c->link.block.at || c->link.held_bytes > 0) {
		wait_for(&c->wait, WAIT_TAKE, c->stream.sent,
			now_ms + c->listener->conf->send_timeout_ms, now_ms);
	} else if (wait_for_head(c, now_ms)) {
		return;
	} else if (c->state == H2_DRAINING) {
		wait_for(&c->wait, WAIT_IDLE, 1, now_ms + H2_NOTICE_MS, now_ms);
	} else if (c->stream_count > 0) {
		wait_none(&c->wait);
	} else {
		uint64_t progress = 4 * c->begun + 2 * drains;
		if (c->wait.reason == WAIT_IDLE && c->wait.progress == progress)
			return;
		c->untaken_ms = 0;
		wait_for(&c->wait, WAIT_IDLE, progress, now_ms + idle_ms(c), now_ms);
		idle_list_put(&c->listener->idle_http2, &c->idle, now_ms);
	}
}

/* Does its client still take what the system has for it? */
static bool still_takes(struct h2_connection *c, uint64_t now_ms)
{
	uint64_t taken = stream_taken(&c->stream);

	if (taken == c->stream.sent)
		return false;
	if (c->untaken_ms == 0 || taken > c->taken) {
		c->taken = taken;
		c->untaken_ms = now_ms;
	}
	return now_ms < c->untaken_ms + c->listener->conf->send_timeout_ms && !c->worker->draining;
}

/* No stream has come for long enough. */
static void end_idle(struct h2_connection *c)
{
	uint64_t now_ms = worker_now_ms(c->worker);

	if (c->state == H2_DRAINING) {
		h2_session_finish(c);
	} else if (c->state == H2_GREETING) {
		h2_connection_close(c, "idle");
	} else if (still_takes(c, now_ms)) {
		deadline_set(&c->wait.deadline, now_ms + LOOK_MS, now_ms);
	} else {
		nghttp2_session_terminate_session(c->link.session, NGHTTP2_NO_ERROR);
		h2_write_later(c);
	}
}

void h2_wait_passed(struct deadline *deadline)
{
	struct wait *wait = CONTAINER_OF(deadline, struct wait, deadline);
	struct h2_connection *c = CONTAINER_OF(wait, struct h2_connection, wait);

	switch ((int)wait->reason) {
	case WAIT_TAKE:
		stream_reset_at_close(&c->stream);
		h2_connection_close(c, "send timeout");
		break;
	case WAIT_HEAD:
		if (c->state == H2_GREETING) {
			h2_connection_close(c, "header timeout");
			break;
		}
		nghttp2_session_terminate_session(c->link.session,
			c->head.is_open ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_SETTINGS_TIMEOUT);
		h2_write_later(c);
		break;
	case WAIT_IDLE:
		end_idle(c);
		break;
	default:
		h2_connection_close(c, "lingered");
		break;
	}
}
