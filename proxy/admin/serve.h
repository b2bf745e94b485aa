/* One request to the admin API while libmicrohttpd reads it and answers it: its callbacks. */
#ifndef ADMIN_SERVE_H
#define ADMIN_SERVE_H

#include <microhttpd.h>

/* MHD_AccessHandlerCallback; `ctx` is the struct admin_services. Called for a request's head, then
 * for each piece of its content, then until there is a response. */
enum MHD_Result admin_on_request(void *ctx, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *data, size_t *data_size,
	void **call_at);

/* MHD_RequestCompletedCallback; `ctx` is the struct doorman of its daemon. Frees the call. */
void admin_on_completed(void *ctx, struct MHD_Connection *connection, void **call_at,
	enum MHD_RequestTerminationCode code);

/* UnescapeCallback. Decodes %XX in place, but for %00: a NUL would end the text, and something else
 * be meant by it. Returns the length that is left. */
size_t admin_unescape(void *ctx, struct MHD_Connection *connection, char *text);

#endif
