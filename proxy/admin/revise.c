#include "admin/revise.h"

#include <stdio.h>

#include "admin/json_text.h"
#include "admin/request.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"

json_t *admin_object(struct admin_request *request)
{
	json_error_t error;
	json_t *object =
		json_loadb(request->body, request->body_bytes, JSON_REJECT_DUPLICATES, &error);
	char detail[sizeof(error.text) + 64];

	if (json_is_object(object))
		return object;
	json_decref(object);
	snprintf(detail, sizeof(detail), "The content is not a JSON object%s%s.",
		object ? "" : ": ", object ? "" : error.text);
	admin_respond_problem(request, 400, detail);
	return NULL;
}

void admin_respond_errors(struct admin_request *request, unsigned status, const char *detail,
	const struct conf_errors *errors)
{
	json_t *list = json_array();

	for (size_t i = 0; i < errors->count; i++)
		json_array_append_new(list, admin_json_text(errors->items[i].text));
	admin_respond_problem_with(request, status, detail, "errors", list);
}

bool admin_revise(
	struct admin_request *request, const struct conf_revision *revisions, size_t count)
{
	struct daemon *daemon = request->daemon;
	struct conf_errors errors = {0};
	enum reload_outcome outcome = RELOAD_FAILED;

	if (daemon->node.stopping) {
		admin_respond_problem(request, 409, "sluice is stopping.");
	} else if (daemon->reload) {
		admin_respond_problem(request, 409,
			"A reload is waiting for the addresses of new host names; try again in a "
			"few seconds.");
	} else {
		outcome = daemon_revise(daemon, revisions, count, &errors);
		if (outcome == RELOAD_FAILED)
			admin_respond_errors(request, 422,
				"The change has errors; nothing has changed.", &errors);
	}
	conf_errors_free(&errors);
	return outcome != RELOAD_FAILED;
}

bool admin_is_leaving(struct admin_request *request)
{
	if (request->daemon->node.stopping)
		admin_respond_problem(request, 409, "sluice is stopping.");
	else if (request->daemon->upgrade)
		admin_respond_problem(request, 409,
			"The new process of an upgrade is starting; try again in a moment.");
	else
		return false;
	return true;
}
