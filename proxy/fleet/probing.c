#include "fleet/probing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PERIOD_MOST_MS 1000
/* With nothing heard there is no state to keep: so long the store and a prober have for a word. */
#define WAITING_MS 2000

void probing_begin(struct probing *probing, const struct probing_terms *terms, const char *self,
	uint64_t now_ms)
{
	*probing = (struct probing){.terms = *terms, .self = self, .begun_ms = now_ms};
}

uint64_t probing_period_ms(const struct probing_terms *terms)
{
	uint64_t period_ms = terms->interval_ms / 2;

	if (period_ms > terms->lease_ms / 3)
		period_ms = terms->lease_ms / 3;
	return period_ms < PERIOD_MOST_MS ? period_ms : PERIOD_MOST_MS;
}

uint64_t probing_bound_ms(const struct probing_terms *terms)
{
	return terms->lease_ms + 3 * (terms->interval_ms + terms->timeout_ms);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

static bool is_old(const struct probing *probing, uint64_t heard_ms, uint64_t now_ms)
{
	uint64_t last_ms = heard_ms > probing->begun_ms ? heard_ms : probing->begun_ms;

	return now_ms > last_ms && now_ms - last_ms > probing_bound_ms(&probing->terms);
}

enum probes_role probing_role(const struct probing *probing, uint64_t now_ms, bool is_store_there)
{
	if (probing->fence > 0 && now_ms < probing->held_until_ms)
		return PROBES_PROBER;
	if (probing->fence > 0 && !is_store_there)
		return PROBES_ALONE;
	if (probing->heard_fence == 0)
		return now_ms > probing->begun_ms + WAITING_MS ? PROBES_ALONE : PROBES_WAITING;
	return is_old(probing, probing->heard_ms, now_ms) ? PROBES_ALONE : PROBES_FOLLOWER;
}

bool probing_is_mine(const struct probing *probing, uint64_t checked_ms, bool is_unshared,
	uint64_t now_ms, bool is_store_there)
{
	enum probes_role role = probing_role(probing, now_ms, is_store_there);

	return role == PROBES_PROBER || role == PROBES_ALONE || is_unshared ||
	       is_old(probing, checked_ms, now_ms);
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool probing_ask(struct probing *probing, struct lock_ask *ask, struct findings_head *head)
{
	if (probing->is_leaving) {
		ask->verb = probing->fence > 0 ? LOCK_RELEASE : LOCK_LOOK;
		ask->number = probing->fence;
		return false;
	}
	lock_ask_own(ask, probing->fence);
	if (probing->fence == 0)
		return false;
	*head = (struct findings_head){.fence = probing->fence,
		.number = ++probing->number,
		.lease_ms = probing->terms.lease_ms};
	return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum probing_outcome take_held(
	struct probing *probing, const struct lock_ask *ask, const struct lock_answer *answer)
{
	bool is_new = probing->fence == 0;

	probing->fence = answer->fence;
	probing->held_until_ms = probing->is_leaving ? 0 : ask->asked_ms + ask->lease_ms;
	probing->heard_fence = answer->fence;
	probing->heard_ms = ask->asked_ms;
	snprintf(probing->prober, sizeof(probing->prober), "%s", probing->self);
	if (is_new)
		probing->number = 0;
	return is_new ? PROBING_ELECTED : PROBING_NOTHING;
}

/* When a publication left its prober, as the lease that it renewed tells. */
static uint64_t published_ms(
	uint64_t asked_ms, const struct findings_head *head, const struct lock_answer *answer)
{
	uint64_t ago_ms = head->lease_ms > answer->left_ms ? head->lease_ms - answer->left_ms : 0;

	return asked_ms > ago_ms ? asked_ms - ago_ms : 1;
}

/* What was published by another fence than the holder's is of a prober whose session is over. */
static enum probing_outcome take_busy(struct probing *probing, const struct lock_ask *ask,
	const struct lock_answer *answer, struct findings_reader *reader)
{
	struct findings_head head;

	snprintf(probing->prober, sizeof(probing->prober), "%s",
		lock_session_is_valid(answer->session) ? answer->session : "");
	if (!findings_read_head(reader, answer->value, answer->value_len, &head) ||
		head.fence != answer->fence)
		return PROBING_NOTHING;
	if (head.fence == probing->heard_fence && head.number == probing->heard_number)
		return PROBING_NOTHING;
	probing->heard_fence = head.fence;
	probing->heard_number = head.number;
	probing->heard_ms = published_ms(ask->asked_ms, &head, answer);
	return PROBING_HEARD;
}

enum probing_outcome probing_take(struct probing *probing, const struct lock_ask *ask,
	const struct lock_answer *answer, struct findings_reader *reader)
{
	switch (answer->status) {
	case LOCK_HELD:
		return take_held(probing, ask, answer);
	case LOCK_BUSY:
		return take_busy(probing, ask, answer, reader);
	case LOCK_OVER:
		if (probing->fence == 0)
			return PROBING_NOTHING;
		probing->fence = 0;
		probing->prober[0] = '\0';
		return PROBING_OVER;
	case LOCK_FREE:
	case LOCK_LAPSED:
		probing->fence = 0;
		probing->prober[0] = '\0';
		return PROBING_NOTHING;
	case LOCK_UNKNOWN:
		break;
	}
	return PROBING_NOTHING;
}

void probing_leave(struct probing *probing)
{
	probing->is_leaving = true;
	probing->held_until_ms = 0;
}

void probing_node_of(const char *session, char node[static PROBE_NODE_BYTES])
{
	const char *slash = strrchr(session, '/');
	size_t len = slash ? (size_t)(slash - session) : strlen(session);

	snprintf(node, PROBE_NODE_BYTES, "%.*s", (int)len, session);
}

/* ---- findings ------------------------------------------------------------------------------- */

/* Lengths and times have fewer digits. */
#define DIGITS_MOST 19

static const char version[] = "1 ";

/* ---- writing --------------------------------------------------------------------------------- */

bool findings_begin(struct findings_writer *writer, const struct findings_head *head)
{
	int len = snprintf(writer->at, writer->size, "%s%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		version, head->fence, head->number, head->lease_ms);

	writer->len = 0;
	if (len < 0 || (size_t)len >= writer->size)
		return false;
	writer->len = (size_t)len;
	return true;
}

bool findings_add(struct findings_writer *writer, const struct findings_line *line)
{
	const char *state = !line->is_known ? "new" : line->is_up ? "up" : "down";
	size_t room = writer->size - writer->len;
	int len = snprintf(writer->at + writer->len, room,
		"%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu %zu %.*s %.*s\n", state,
		line->since_ago_ms, line->checked_ago_ms, line->addresses_id, line->address.len,
		line->saw.len, (int)line->address.len, line->address.at, (int)line->saw.len,
		line->saw.at);

	if (len < 0 || (size_t)len >= room)
		return false;
	writer->len += (size_t)len;
	return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Digits up to `end_mark`, which is passed. */
static bool read_number(struct findings_reader *reader, char end_mark, uint64_t *number)
{
	unsigned digits = 0;

	*number = 0;
	for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
		uint64_t digit = (uint64_t)(*reader->at - '0');
		if (++digits > DIGITS_MOST + 1 || *number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	if (digits == 0 || reader->at == reader->end || *reader->at != end_mark)
		return false;
	reader->at++;
	return true;
}

static bool read_word(struct findings_reader *reader, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
		return false;
	reader->at += len;
	return true;
}

/* So many bytes and the mark behind them, which is passed. */
static bool read_bytes(
	struct findings_reader *reader, uint64_t len, char end_mark, struct slice *bytes)
{
	if (len >= (uint64_t)(reader->end - reader->at) || reader->at[len] != end_mark)
		return false;
	*bytes = (struct slice){reader->at, (size_t)len};
	reader->at += len + 1;
	return true;
}

bool findings_read_head(
	struct findings_reader *reader, const char *text, size_t len, struct findings_head *head)
{
	*reader = (struct findings_reader){text, text + len};
	return read_word(reader, version) && read_number(reader, ' ', &head->fence) &&
	       read_number(reader, ' ', &head->number) &&
	       read_number(reader, '\n', &head->lease_ms);
}

static bool read_state(struct findings_reader *reader, struct findings_line *line)
{
	line->is_up = read_word(reader, "up ");
	line->is_known = line->is_up || read_word(reader, "down ");
	return line->is_known || read_word(reader, "new ");
}

bool findings_read_line(struct findings_reader *reader, struct findings_line *line)
{
	uint64_t address_len, saw_len;

	return read_state(reader, line) && read_number(reader, ' ', &line->since_ago_ms) &&
	       read_number(reader, ' ', &line->checked_ago_ms) &&
	       read_number(reader, ' ', &line->addresses_id) &&
	       read_number(reader, ' ', &address_len) && read_number(reader, ' ', &saw_len) &&
	       read_bytes(reader, address_len, ' ', &line->address) &&
	       read_bytes(reader, saw_len, '\n', &line->saw);
}
