/* The dashboard: a page that asks the rest of the interface, as any other client. Its files have no
 * secrets, so they need no token; what the page asks for does. */
#include <stdlib.h>
#include <string.h>

#include "admin/dashboard_files.h"
#include "admin/handlers.h"
#include "admin/request.h"
#include "daemon/daemon.h"

static const char *media_type_of(const char *name)
{
	static const char *const types[][2] = {
		{".html", "text/html; charset=utf-8"},
		{".css", "text/css; charset=utf-8"},
		{".js", "text/javascript; charset=utf-8"},
	};
	const char *end = strrchr(name, '.');

	for (size_t i = 0; end && i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(end, types[i][0]) == 0)
			return types[i][1];
	}
	return "application/octet-stream";
}

static void respond(struct admin_request *request, const struct dashboard_file *file)
{
	request->text = malloc(file->bytes + 1);
	if (!request->text) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	memcpy(request->text, file->at, file->bytes);
	request->text_bytes = file->bytes;
	request->media_type = media_type_of(file->name);
}

void admin_get_dashboard(struct admin_request *request)
{
	const char *name = *request->tail ? request->tail : "index.html";

	if (!request->daemon->site->conf->admin.dashboard) {
		admin_respond_problem(request, 404, "dashboard = off in [admin].");
		return;
	}
	for (size_t i = 0; i < dashboard_file_count; i++) {
		if (strcmp(dashboard_files[i].name, name) == 0) {
			respond(request, &dashboard_files[i]);
			return;
		}
	}
	admin_respond_problem(request, 404, "There is no such path.");
}
