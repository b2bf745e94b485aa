/* Publishing to GRIP's channels: POST publish, and publish/ as GRIP's libraries have it. */
#include "config.h"

#include "admin/handlers.h"
#include "admin/request.h"

#ifdef HAVE_WEBSOCKET
#include "admin/publish_items.h"
#include "daemon/daemon.h"

#define RETRY_AFTER_S 1

static void respond(struct admin_request *request, enum publish_result result, size_t count,
	uint64_t subscriptions)
{
	switch (result) {
	case PUBLISH_DONE:
		admin_respond_json(request, 200,
			json_pack("{s:I, s:I}", "published", (json_int_t)count, "subscriptions",
				(json_int_t)subscriptions));
		return;
	case PUBLISH_FULL:
		request->retry_after_s = RETRY_AFTER_S;
		admin_respond_problem(request, 503,
			"The send queues are full (socket_queue_total_bytes); nothing was "
			"published.");
		return;
	case PUBLISH_NO_MEMORY:
		break;
	}
	admin_respond_problem(request, 503, "No memory.");
}

/* On a thread of the admin server: what it uses of the node is for any thread. */
void admin_post_publish(struct admin_request *request)
{
	struct publish_items items;
	uint64_t subscriptions;
	char why[512];

	if (!publish_items_read(
		    (struct slice){request->body, request->body_bytes}, &items, why, sizeof(why))) {
		admin_respond_problem(request, 400, why);
		return;
	}
	enum publish_result result = publish(
		node_publishing(&request->daemon->node), items.items, items.count, &subscriptions);
	respond(request, result, items.count, subscriptions);
	publish_items_end(&items);
}
#else
void admin_post_publish(struct admin_request *request)
{
	admin_respond_problem(
		request, 501, "sluice was built without WebSockets; nothing can be published.");
}
#endif
