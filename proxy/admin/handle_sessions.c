/* Sessions: the clients whose requests are queued or under way. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "base/clock.h"
#include "relay/relay.h"

#define SESSION_ID_BYTES 33 /* 128 bits in hexadecimal, and a NUL */
#define LIST_DEFAULT     100
#define LIST_MAX         10000

struct listing {
	json_t *list;
	size_t left;
	uint64_t total;
};

static json_t *session_of(const struct session_view *view)
{
	char id[SESSION_ID_BYTES];

	snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, view->key.word[0], view->key.word[1]);
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "id", id, "state",
		session_state_name(view->state), "queued_high",
		(json_int_t)view->queued[QUEUE_LANE_HIGH], "queued_normal",
		(json_int_t)view->queued[QUEUE_LANE_NORMAL], "in_flight",
		(json_int_t)(view->in_flight + view->detached), "accepted",
		(json_int_t)view->accepted, "completed", (json_int_t)view->completed, "pinned",
		view->pinned);
}

static bool visit(void *ctx, const struct session_view *view)
{
	struct listing *listing = ctx;

	listing->total++;
	if (listing->left > 0) {
		listing->left--;
		json_array_append_new(listing->list, session_of(view));
	}
	return true;
}

void admin_get_sessions(struct admin_request *request)
{
	const char *count = admin_argument(request, "count");
	unsigned long wanted = count ? strtoul(count, NULL, 10) : LIST_DEFAULT;
	struct listing listing = {json_array(), wanted < LIST_MAX ? wanted : LIST_MAX, 0};

	if (!queue_each_session(request->relay->queue, visit, &listing)) {
		json_decref(listing.list);
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	admin_respond_json(request, 200,
		json_pack("{s:I, s:o}", "total", (json_int_t)listing.total, "sessions",
			listing.list));
}

/* `ID/drain`, `ID/close`, `ID/abort` */
void admin_post_session(struct admin_request *request)
{
	static const struct {
		const char *word;
		enum session_state state;
	} operations[] = {{"drain", SESSION_DRAINING}, {"close", SESSION_CLOSING},
		{"abort", SESSION_ABORTED}};
	struct session_key key;
	int used = 0;

	if (sscanf(request->tail, "%16" SCNx64 "%16" SCNx64 "/%n", &key.word[0], &key.word[1],
		    &used) != 2 ||
		used != SESSION_ID_BYTES) {
		admin_respond_problem(request, 404,
			"A session's path is its id of 32 digits, then /drain, /close or /abort.");
		return;
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(request->tail + used, operations[i].word) != 0)
			continue;
		if (queue_close_session(
			    request->relay->queue, key, operations[i].state, clock_monotonic_ns()))
			admin_respond_json(request, 200,
				json_pack(
					"{s:s}", "state", session_state_name(operations[i].state)));
		else
			admin_respond_problem(request, 404, "There is no such session.");
		return;
	}
	admin_respond_problem(request, 404, "The operations are drain, close and abort.");
}
