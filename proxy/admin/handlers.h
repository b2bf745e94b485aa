/* The handlers of admin_endpoints, by the file they are in. */
#ifndef ADMIN_HANDLERS_H
#define ADMIN_HANDLERS_H

#include <jansson.h>
#include <stdint.h>

struct admin_request;
struct daemon;
struct throttle_outcome;

/* handle_status.c */
void admin_get_status(struct admin_request *request);
void admin_get_health(struct admin_request *request);
void admin_get_ready(struct admin_request *request);
void admin_get_metrics(struct admin_request *request);

/* handle_limits.c */
void admin_get_limits(struct admin_request *request);
void admin_get_limit(struct admin_request *request);
void admin_patch_limit(struct admin_request *request);

/* handle_callers.c */
void admin_get_callers(struct admin_request *request);
void admin_get_caller(struct admin_request *request);
void admin_delete_caller(struct admin_request *request);

/* handle_busiest.c */
void admin_get_busiest(struct admin_request *request);

/* handle_callers.c: also how long a caller is refused by a ban, or null */
json_t *admin_ban_ms(const struct throttle_outcome *outcome);

/* handle_keys.c: also the plan that a key has by its own, or NULL */
void admin_get_key(struct admin_request *request);
void admin_put_key(struct admin_request *request);
void admin_delete_key(struct admin_request *request);
const char *admin_plan_of_key(const struct daemon *daemon, const char *key);

/* handle_limits.c: also {"kind": ..., "until": ...}, or null, of a caller */
void admin_put_override(struct admin_request *request);
void admin_delete_override(struct admin_request *request);
json_t *admin_override_json(const struct daemon *daemon, uint64_t caller);

/* handle_explain.c */
void admin_get_fleet(struct admin_request *request);
void admin_get_explain(struct admin_request *request);

/* handle_upstreams.c */
void admin_get_upstreams(struct admin_request *request);
void admin_post_server(struct admin_request *request);
void admin_put_server(struct admin_request *request);

/* handle_sessions.c */
void admin_get_sessions(struct admin_request *request);
void admin_get_session(struct admin_request *request);
void admin_post_session(struct admin_request *request);

/* handle_sockets.c */
void admin_get_sockets(struct admin_request *request);
void admin_get_socket(struct admin_request *request);
void admin_post_socket(struct admin_request *request);
/* handle_publish.c */
void admin_post_publish(struct admin_request *request);

/* handle_config.c */
void admin_post_reload(struct admin_request *request);

/* handle_dashboard.c */
void admin_get_dashboard(struct admin_request *request);

/* handle_usage.c */
void admin_get_usage(struct admin_request *request);

/* handle_events.c */
void admin_get_events(struct admin_request *request);

/* handle_config.c */
void admin_get_config(struct admin_request *request);
void admin_put_log_level(struct admin_request *request);

#endif
