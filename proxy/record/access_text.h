/*
 * Texts of clients in a line of the access log: escaped, cut to a length, and without the values of
 * query parameters by which callers are identified, which are secrets.
 *
 * However long the texts are, the fields behind them must be there: each text has a length of its
 * own that it may take up, escapes included, and their sum fits into a line.
 */
#ifndef RECORD_ACCESS_TEXT_H
#define RECORD_ACCESS_TEXT_H

#include <stddef.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "http/out.h"

/* For the combined format: '"', '\' and unprintable bytes as \xHH. Writes at most `most` bytes,
 * at least 3; a text that was cut ends in "...". */
void access_put_escaped(struct http_out *out, struct slice text, size_t most);

/* The same in quotes, which come on top; "-" when it is empty. */
void access_put_quoted(struct http_out *out, struct slice text, size_t most);

/* A JSON string, likewise. */
void access_put_json(struct http_out *out, struct slice text, size_t most);

/*
 * `target` with `***` for the value of each query parameter that `names` holds. Names are compared
 * decoded and whatever their case, so that none is missed that a server might take for it. Uses
 * `scratch` when there is something to replace; what does not fit in there is cut.
 */
struct slice access_redact(struct slice target, const struct conf_text_list *names, char *scratch,
	size_t scratch_bytes);

#endif
