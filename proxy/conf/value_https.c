/* A listener's options that send clients to https: `redirect` and HSTS. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#include <string.h>

#define HTTPS_PORT 443

/* off, https or https:PORT */
static bool parse_redirect(struct value *value)
{
	struct slice text = value->text, scheme = SLICE("https:");
	uint64_t port = HTTPS_PORT;

	if (slice_equal(text, SLICE("off")))
		port = 0;
	else if (!slice_equal(text, SLICE("https")) &&
		 (text.len <= scheme.len || memcmp(text.at, scheme.at, scheme.len) != 0 ||
			 !scan_digits((struct slice){text.at + scheme.len, text.len - scheme.len},
				 &port) ||
			 port == 0 || port > UINT16_MAX))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(text));
	*(uint16_t *)value->at = (uint16_t)port;
	return true;
}

/* DURATION [includeSubDomains] [preload] (RFC 6797 section 6.1) */
static bool parse_hsts(struct value *value)
{
	static const char *const words[] = {"includeSubDomains", "preload"};
	struct conf_fields *fields = value->at;
	struct slice rest = value->text, token = SLICE_NONE;
	bool has[2] = {false, false}, good;
	uint64_t ms = 0;

	*fields = (struct conf_fields){0};
	if (slice_equal(value->text, SLICE("off")))
		return true;
	good = scan_next_token(&rest, &token) && scan_duration_ms(token, &ms);
	while (good && scan_next_token(&rest, &token)) {
		good = false;
		for (size_t i = 0; i < 2; i++) {
			if (slice_equal_nocase(token, slice_of(words[i])) && !has[i])
				good = has[i] = true;
		}
	}
	if (!good)
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	const char *text = arena_format(value->build->arena, "max-age=%llu%s%s",
		(unsigned long long)(ms / 1000), has[0] ? "; includeSubDomains" : "",
		has[1] ? "; preload" : "");
	static const struct slice name = SLICE("Strict-Transport-Security");
	fields->items = arena_alloc(value->build->arena, sizeof(*fields->items));
	fields->items[0] = (struct conf_field){name.at, name.len, text, strlen(text)};
	fields->count = 1;
	return true;
}

const struct option_type type_redirect = {
	"redirect", "off, https or https:PORT", parse_redirect, NULL, false};
const struct option_type type_hsts = {"hsts",
	"off, or a duration, with includeSubDomains and preload behind it if wanted", parse_hsts,
	same_fields, false};
