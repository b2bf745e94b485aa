/* Settings that requests change (conf/revise.h), and the errors that configurations have. */
#ifndef ADMIN_REVISE_H
#define ADMIN_REVISE_H

#include <jansson.h>
#include <stdbool.h>

#include "conf/revise.h"

struct admin_request;

/* The note in a response about a change that only the file can keep. */
#define ADMIN_UNTIL_RELOAD                                                                         \
	"In effect until the next reload or start, which take the file's value; to keep it, "      \
	"change the file, too."

/* The content as a JSON object, to be freed with json_decref; NULL with the problem sent. */
json_t *admin_object(struct admin_request *request);

/* Puts changed settings in force. False with the problem sent: nothing has changed then. */
bool admin_revise(
	struct admin_request *request, const struct conf_revision *revisions, size_t count);

/* Responds with a problem that lists the errors of a configuration. */
void admin_respond_errors(struct admin_request *request, unsigned status, const char *detail,
	const struct conf_errors *errors);

/* Will another process answer in place of this one, which may have read by now what is kept? Then
 * the problem is sent. */
bool admin_is_leaving(struct admin_request *request);

#endif
