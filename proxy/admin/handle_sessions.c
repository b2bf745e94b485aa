/* Sessions: the clients whose requests are queued or under way. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "ownership/owners.h"

#define SESSION_ID_BYTES 33 /* 128 bits in hexadecimal, and a NUL */
#define LIST_DEFAULT     100
#define LIST_MAX         10000

struct listing {
	struct owners *owners;
	json_t *list;
	size_t left;
	uint64_t total;
	const char *state; /* only those in it; NULL: all */
};

/* The name of the node that owns it; null where that is not known, or matters not. */
static json_t *owner_of(struct owners *owners, struct session_key key)
{
	char name[CONF_NODE_BYTES] = "";

	if (owners)
		owners_describe(owners, key, name);
	return name[0] ? admin_json_text(name) : json_null();
}

static json_t *session_of(struct owners *owners, const struct session_view *view)
{
	char id[SESSION_ID_BYTES];

	snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, view->key.word[0], view->key.word[1]);
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "id", id, "state",
		session_state_name(view->state), "queued_high",
		(json_int_t)view->queued[QUEUE_LANE_HIGH], "queued_normal",
		(json_int_t)view->queued[QUEUE_LANE_NORMAL], "in_flight",
		(json_int_t)(view->in_flight + view->detached), "accepted",
		(json_int_t)view->accepted, "completed", (json_int_t)view->completed, "pinned",
		view->pinned, "owner", owner_of(owners, view->key));
}

static bool visit(void *ctx, const struct session_view *view)
{
	struct listing *listing = ctx;

	if (listing->state && strcmp(listing->state, session_state_name(view->state)) != 0)
		return true;
	listing->total++;
	if (listing->left > 0) {
		listing->left--;
		json_array_append_new(listing->list, session_of(listing->owners, view));
	}
	return true;
}

void admin_get_sessions(struct admin_request *request)
{
	const char *count = admin_argument(request, "count");
	unsigned long wanted = count ? strtoul(count, NULL, 10) : LIST_DEFAULT;
	struct listing listing = {.owners = node_owners(&request->daemon->node),
		.list = json_array(),
		.left = wanted < LIST_MAX ? wanted : LIST_MAX,
		.state = admin_argument(request, "state")};

	if (!queue_each_session(request->daemon->node.queue, visit, &listing)) {
		json_decref(listing.list);
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	admin_respond_json(request, 200,
		json_pack("{s:I, s:o}", "total", (json_int_t)listing.total, "sessions",
			listing.list));
}

static int digit_of(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* The 32 digits that `text` begins with. NULL: it does not; else what follows them. */
static const char *read_id(const char *text, struct session_key *key)
{
	for (size_t i = 0; i < SESSION_ID_BYTES - 1; i++) {
		if (!isxdigit((unsigned char)text[i]))
			return NULL;
		key->word[i / 16] = key->word[i / 16] << 4 | (uint64_t)digit_of(text[i]);
	}
	return text + SESSION_ID_BYTES - 1;
}

/* One that is looked for. */
struct wanted {
	struct owners *owners;
	struct session_key key;
	json_t *found;
};

static bool visit_wanted(void *ctx, const struct session_view *view)
{
	struct wanted *wanted = ctx;

	if (view->key.word[0] != wanted->key.word[0] || view->key.word[1] != wanted->key.word[1])
		return true;
	wanted->found = session_of(wanted->owners, view);
	return false;
}

void admin_get_session(struct admin_request *request)
{
	struct wanted wanted = {.owners = node_owners(&request->daemon->node)};
	const char *rest = read_id(request->tail, &wanted.key);

	if (!rest || *rest)
		admin_respond_problem(request, 404, "A session's path is its id of 32 digits.");
	else if (!queue_each_session(request->daemon->node.queue, visit_wanted, &wanted))
		admin_respond_problem(request, 503, "No memory.");
	else if (!wanted.found)
		admin_respond_problem(request, 404, "There is no such session.");
	else
		admin_respond_json(request, 200, wanted.found);
}

/* `ID/drain`, `ID/close`, `ID/abort` */
void admin_post_session(struct admin_request *request)
{
	static const struct {
		const char *word;
		enum session_state state;
	} operations[] = {{"drain", SESSION_DRAINING}, {"close", SESSION_CLOSING},
		{"abort", SESSION_ABORTED}};
	struct session_key key = {0};
	const char *rest = read_id(request->tail, &key);

	if (!rest || *rest != '/') {
		admin_respond_problem(request, 404,
			"A session's path is its id of 32 digits, then /drain, /close or /abort.");
		return;
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(rest + 1, operations[i].word) != 0)
			continue;
		enum session_state now = queue_close_session(request->daemon->node.queue, key,
			operations[i].state, clock_monotonic_ns());
		if (now != SESSION_OPEN)
			admin_respond_json(
				request, 200, json_pack("{s:s}", "state", session_state_name(now)));
		else
			admin_respond_problem(request, 404, "There is no such session.");
		return;
	}
	admin_respond_problem(request, 404, "The operations are drain, close and abort.");
}
