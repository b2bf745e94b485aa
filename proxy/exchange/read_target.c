#include "exchange/read_target.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/exchange.h"
#include "http/path.h"
#include "http/path_readings.h"

static bool names_no_path(const struct exchange *x)
{
	struct slice raw = http_head_target(&x->request), authority = x->target.authority_text;

	return x->target.form == HTTP_TARGET_ABSOLUTE &&
	       authority.at + authority.len == raw.at + raw.len;
}

/* The paths that do not stand in the head move to the exchange: the normal form, and that by which
 * keys know an odd path, in which as much is one as any server may take for it. */
static bool keep_paths(struct exchange *x)
{
	struct worker *worker = x->worker;
	char *scratch = worker->path_scratch;
	size_t len = x->facts.path.at == scratch ? x->facts.path.len : 0;
	struct slice key = SLICE_NONE;

	if (x->facts.path_odd)
		key = http_path_reading(x->target.path, http_path_features(x->target.path),
			scratch + len, sizeof(worker->path_scratch) - len);
	if (len + key.len > 0) {
		x->memory.path = malloc(len + key.len);
		if (!x->memory.path)
			return false;
		memcpy(x->memory.path, scratch, len + key.len);
	}
	if (len > 0)
		x->facts.path.at = x->memory.path;
	x->facts.key_path = key.at ? (struct slice){x->memory.path + len, key.len} : x->facts.path;
	return true;
}

unsigned read_target(struct exchange *x)
{
	struct http_authority authority = {0};
	struct slice host = http_head_find(&x->request, HTTP_FIELD_HOST);

	if (!http_target_parse(http_head_target(&x->request), x->request.method, &x->target))
		return 400;
	if (!http_authority_parse(host, &authority))
		return 400;
	if (x->request.method == HTTP_METHOD_CONNECT)
		return 405;
	x->facts.authority = host;
	if (x->target.form == HTTP_TARGET_ABSOLUTE) {
		/* RFC 9112 section 3.2.2: the Host field is ignored then. */
		x->facts.authority = x->target.authority_text;
		authority = x->target.authority;
	}
	x->facts.host = http_authority_host(&authority, x->text.host);
	if (x->request.method == HTTP_METHOD_OPTIONS && names_no_path(x)) {
		x->target.form = HTTP_TARGET_ASTERISK; /* RFC 9112 section 3.2.4 */
		x->target.path = SLICE("*");
	}
	if (x->target.form == HTTP_TARGET_ASTERISK) {
		x->facts.path = x->facts.key_path = x->target.path;
		return 0;
	}
	switch (http_path_normalise(x->target.path, x->worker->path_scratch,
		sizeof(x->worker->path_scratch), &x->facts.path, &x->facts.path_odd)) {
	case HTTP_PATH_OK:
		break;
	case HTTP_PATH_INVALID:
		return 400;
	case HTTP_PATH_TOO_LONG:
		return 414;
	}
	if (x->facts.path.at == x->worker->path_scratch || x->facts.path_odd)
		return keep_paths(x) ? 0 : 500;
	x->facts.key_path = x->facts.path;
	return 0;
}
