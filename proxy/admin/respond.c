/* The responses of handlers: JSON, and problems (RFC 9457). */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "admin/request.h"

const char *admin_argument(const struct admin_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

void admin_respond_json(struct admin_request *request, unsigned status, json_t *value)
{
	free(request->text);
	request->status = status;
	request->media_type = status < 400 ? "application/json" : "application/problem+json";
	request->text = value ? json_dumps(value, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
	request->text_bytes = request->text ? strlen(request->text) : 0;
	if (!request->text)
		request->status = 503;
	json_decref(value);
}

static const char *title_of(unsigned status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 409:
		return "Conflict";
	case 413:
		return "Content Too Large";
	case 422:
		return "Unprocessable Content";
	case 503:
		return "Service Unavailable";
	default:
		return "Error";
	}
}

void admin_respond_problem_with(struct admin_request *request, unsigned status, const char *detail,
	const char *name, json_t *value)
{
	json_t *problem = json_pack("{s:s, s:s, s:i, s:s}", "type", "about:blank", "title",
		title_of(status), "status", (int)status, "detail", detail);

	if (value)
		json_object_set_new(problem, name, value);
	admin_respond_json(request, status, problem);
}

void admin_respond_problem(struct admin_request *request, unsigned status, const char *detail)
{
	admin_respond_problem_with(request, status, detail, NULL, NULL);
}
