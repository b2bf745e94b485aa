/* The permissions of callers: tokens, signatures of publishers, and the pages of browsers. */
#ifndef ADMIN_AUTHORIZE_H
#define ADMIN_AUTHORIZE_H

#include <stdbool.h>

#include "admin/request.h"

struct admin_services;

/* May this request call an endpoint that needs this role? Else it is answered: 401 or 403. On the
 * thread of the connection's daemon; waits for the main thread where a publisher's signature is
 * verified. */
bool admin_authorize(const struct admin_services *services, struct admin_request *request,
	enum admin_role needed);

#endif
