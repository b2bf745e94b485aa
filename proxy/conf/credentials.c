#include "conf/credentials.h"

#include <stdint.h>
#include <string.h>

#include "conf/conf.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool credentials_split(struct slice value, size_t *scheme_len, size_t *rest_at)
{
	size_t i = 0;

	while (i < value.len && !is_blank(value.at[i]))
		i++;
	*scheme_len = i;
	while (i < value.len && is_blank(value.at[i]))
		i++;
	*rest_at = i;
	return *scheme_len > 0 && i < value.len;
}

/* Capital first, as most write it. */
static char scheme_char(char c, bool first)
{
	bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

	return !letter ? c : (char)(first ? c & ~0x20 : c | 0x20);
}

bool credentials_are_canonical(struct slice value)
{
	size_t scheme_len, rest_at;

	if (!credentials_split(value, &scheme_len, &rest_at))
		return true;
	for (size_t i = 0; i < scheme_len; i++) {
		if (scheme_char(value.at[i], i == 0) != value.at[i])
			return false;
	}
	return rest_at == scheme_len + 1 && value.at[scheme_len] == ' ';
}

#define DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char base64_digits[] = DIGITS "+/", url_digits[] = DIGITS "-_";

/* The value of a digit, or -1. */
static int digit_value(const char *digits, char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Are these digits, none of whose bits is set that stands for nothing? */
static bool are_digits(const char *digits, struct slice text)
{
	/* Two digits behind the last four leave four bits of the last unused, three leave two. */
	static const int unused[4] = {0, -1, 15, 3};

	for (size_t i = 0; i < text.len; i++) {
		if (digit_value(digits, text.at[i]) < 0)
			return false;
	}
	return text.len % 4 == 0 ||
	       (text.len % 4 != 1 &&
		       (digit_value(digits, text.at[text.len - 1]) & unused[text.len % 4]) == 0);
}

static bool is_base64(struct slice text)
{
	size_t len = text.len;

	while (len > 0 && text.len - len < 2 && text.at[len - 1] == '=')
		len--;
	return text.len % 4 == 0 && are_digits(base64_digits, (struct slice){text.at, len});
}

/* A JSON object in base64url, which a JSON web token begins with. */
static bool begins_object(struct slice text)
{
	/* The bits of '{' are the first digit and two of the second. */
	return text.len > 1 && text.at[0] == 'e' && digit_value(url_digits, text.at[1]) >= 48;
}

/* Is it a JSON web token (RFC 7515 section 7.1, RFC 7516 section 7.1) in other base64url than an
 * encoder writes? */
static bool is_misspelled_token(struct slice text)
{
	unsigned dots = 0;
	bool good = true;

	if (!begins_object(text))
		return false;
	for (size_t from = 0, i = 0; i <= text.len; i++) {
		if (i < text.len && text.at[i] != '.')
			continue;
		good &= are_digits(url_digits, (struct slice){text.at + from, i - from});
		dots += i < text.len;
		from = i + 1;
	}
	return !good && (dots == 2 || dots == 4);
}

static bool is_scheme(struct slice value, size_t len, const char *name)
{
	if (strlen(name) != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (scheme_char(value.at[i], i == 0) != name[i])
			return false;
	}
	return true;
}

bool credentials_are_misspelled(struct slice value)
{
	size_t scheme_len, rest_at;

	if (!credentials_split(value, &scheme_len, &rest_at))
		return false;
	struct slice rest = {value.at + rest_at, value.len - rest_at};
	return (is_scheme(value, scheme_len, "Basic") && !is_base64(rest)) ||
	       (is_scheme(value, scheme_len, "Bearer") && is_misspelled_token(rest));
}

void credentials_write_scheme(struct slice scheme, char *out)
{
	for (size_t i = 0; i < scheme.len; i++)
		out[i] = scheme_char(scheme.at[i], i == 0);
}

size_t credentials_write(struct slice value, char *out)
{
	size_t scheme_len, rest_at;

	if (!credentials_split(value, &scheme_len, &rest_at)) {
		memmove(out, value.at, value.len);
		return value.len;
	}
	credentials_write_scheme((struct slice){value.at, scheme_len}, out);
	out[scheme_len] = ' ';
	memmove(out + scheme_len + 1, value.at + rest_at, value.len - rest_at);
	return scheme_len + 1 + value.len - rest_at;
}

/* ---- lists ---- */

bool credentials_are_keys(const struct conf_key *key)
{
	for (size_t i = 0; key && i < key->alternative_count; i++) {
		const struct key_alternative *alternative = &key->alternatives[i];
		if (alternative->part_count == 1 && alternative->parts[0].is_credentials)
			return true;
	}
	return false;
}

static void settle_list(const struct conf_text_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		char *text = (char *)(uintptr_t)list->items[i]; /* the arena's, not yet shared */
		text[credentials_write(slice_of(text), text)] = '\0';
	}
}

void credentials_settle(struct conf *conf)
{
	bool by_plans = credentials_are_keys(conf->plans_key);

	for (size_t i = 0; by_plans && i < conf->plan_count; i++)
		settle_list(&conf->plans[i].callers);
	for (size_t i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		bool by_route = credentials_are_keys(route->sessions.key);
		for (size_t j = 0; j < route->limits.count; j++)
			by_route |= credentials_are_keys(route->limits.items[j]->key);
		for (size_t j = 0; j < route->websocket.limits.count; j++)
			by_route |= credentials_are_keys(route->websocket.limits.items[j]->key);
		bool by_plan = route->limits.plan || route->websocket.limits.plan;
		for (size_t j = 0; by_plan && j < conf->limit_count; j++)
			by_route |= credentials_are_keys(conf->limits[j].key);
		if (by_route) {
			settle_list(&route->access.allow_keys);
			settle_list(&route->access.deny_keys);
		}
	}
}
