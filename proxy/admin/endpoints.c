/* The table of endpoints, and finding one. */
#include "config.h"

#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"

#define API "/api/v1/"

/* A path that ends with '/', but for the root, is followed by one segment, or with `deep` by
 * several. Where the method is POST, others may have a '/' behind them. */
const struct admin_endpoint admin_endpoints[] = {
	{"GET", "/", false, ADMIN_ANYONE, true, admin_get_dashboard},
	{"GET", "/dashboard/", false, ADMIN_ANYONE, true, admin_get_dashboard},
	{"GET", "/healthz", false, ADMIN_ANYONE, false, admin_get_health},
	{"GET", "/readyz", false, ADMIN_ANYONE, true, admin_get_ready},
	{"GET", "/metrics", false, ADMIN_READ, true, admin_get_metrics},
	{"GET", API "status", false, ADMIN_READ, true, admin_get_status},
	{"GET", API "limits", false, ADMIN_READ, true, admin_get_limits},
	{"GET", API "limits/", false, ADMIN_READ, true, admin_get_limit},
	{"PATCH", API "limits/", false, ADMIN_WRITE, true, admin_patch_limit},
	{"GET", API "callers", false, ADMIN_READ, true, admin_get_callers},
	{"DELETE", API "callers", false, ADMIN_WRITE, true, admin_delete_caller},
	{"GET", API "callers/", false, ADMIN_READ, true, admin_get_caller},
	{"DELETE", API "callers/", true, ADMIN_WRITE, true, admin_delete_caller},
	{"PUT", API "callers/", true, ADMIN_WRITE, true, admin_put_override},
	{"GET", API "keys/", true, ADMIN_READ, true, admin_get_key},
	{"PUT", API "keys/", true, ADMIN_WRITE, true, admin_put_key},
	{"DELETE", API "keys/", true, ADMIN_WRITE, true, admin_delete_key},
	{"GET", API "explain", false, ADMIN_READ, true, admin_get_explain},
	{"GET", API "upstreams", false, ADMIN_READ, true, admin_get_upstreams},
	{"PUT", API "upstreams/", true, ADMIN_WRITE, true, admin_put_server},
	{"POST", API "upstreams/", true, ADMIN_WRITE, true, admin_post_server},
	{"GET", API "sessions", false, ADMIN_READ, true, admin_get_sessions},
	{"GET", API "sessions/", false, ADMIN_READ, true, admin_get_session},
	{"POST", API "sessions/", true, ADMIN_WRITE, true, admin_post_session},
#ifdef HAVE_WEBSOCKET
	{"GET", API "sockets", false, ADMIN_READ, true, admin_get_sockets},
	{"GET", API "sockets/", false, ADMIN_READ, true, admin_get_socket},
	{"POST", API "sockets/", true, ADMIN_WRITE, true, admin_post_socket},
#endif
#ifdef HAVE_REDIS
	{"GET", API "fleet", false, ADMIN_READ, true, admin_get_fleet},
#endif
	{"GET", API "usage", false, ADMIN_READ, false, admin_get_usage},
	{"GET", API "events", false, ADMIN_READ, true, admin_get_events},
	{"POST", API "publish", false, ADMIN_PUBLISH, false, admin_post_publish},
	{"POST", API "reload", false, ADMIN_WRITE, true, admin_post_reload},
	{"GET", API "config", false, ADMIN_READ, true, admin_get_config},
	{"PUT", API "log-level", false, ADMIN_WRITE, true, admin_put_log_level},
};
const size_t admin_endpoint_count = sizeof(admin_endpoints) / sizeof(admin_endpoints[0]);

/* GRIP's libraries publish to publish/. */
static bool is_with_slash(const struct admin_endpoint *endpoint, const char *path)
{
	size_t len = strlen(endpoint->path);

	return strcmp(endpoint->method, "POST") == 0 && strncmp(path, endpoint->path, len) == 0 &&
	       strcmp(path + len, "/") == 0;
}

static bool fits_path(const struct admin_endpoint *endpoint, const char *path, const char **tail)
{
	size_t len = strlen(endpoint->path);

	if (endpoint->path[len - 1] != '/' || len == 1) {
		*tail = "";
		return strcmp(path, endpoint->path) == 0 || is_with_slash(endpoint, path);
	}
	*tail = path + len;
	return strncmp(path, endpoint->path, len) == 0 && path[len] != '\0' &&
	       (endpoint->deep || !strchr(path + len, '/'));
}

const struct admin_endpoint *admin_find(
	const char *method, const char *path, const char **tail, bool *path_known)
{
	/* HEAD is GET without the content, which the server leaves out. */
	if (strcmp(method, "HEAD") == 0)
		method = "GET";
	*path_known = false;
	for (size_t i = 0; i < admin_endpoint_count; i++) {
		if (!fits_path(&admin_endpoints[i], path, tail))
			continue;
		if (strcmp(method, admin_endpoints[i].method) == 0)
			return &admin_endpoints[i];
		*path_known = true;
	}
	return NULL;
}
