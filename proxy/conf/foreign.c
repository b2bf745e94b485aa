/*
 * Keys and sections of other programs: not accepted, but each form gets a pointer to what it is
 * here. See foreign.h.
 */
#include "conf/foreign.h"

#include <stdint.h>
#include <string.h>

#include "conf/arena.h"

/* ---- keys and lines ---- */

static const struct {
	const char *word; /* a final '*' stands for any rest */
	const char *pointer;
} words[] = {
	{"include", "here it is `include = PATTERN`, in [sluice] or before all sections"},
	{"tls*", "here TLS towards clients is `certificate = PATH` in [listener NAME]; there is "
		 "none "
		 "towards servers"},
	{"ssl*", "here TLS towards clients is `certificate = PATH` in [listener NAME]; there is "
		 "none "
		 "towards servers"},
	{"certificate*",
		"here it is `certificate = PATH` in [listener NAME], for TLS towards clients"},
	{"private_key", "here it is `certificate_key = PATH` in [listener NAME]"},
	{"redis*", "here it is `store = redis://HOST:PORT` in [fleet], and `scope = fleet` in "
		   "[limit NAME]"},
	{"store*", "here it is `store = redis://HOST:PORT` in [fleet], and `scope = fleet` in "
		   "[limit NAME]"},
	{"memcached*", "here it is `store = redis://HOST:PORT` in [fleet], and `scope = fleet` in "
		       "[limit NAME]"},
	{"listen*", "here it is `bind = ADDRESS:PORT` in [listener NAME]"},
	{"port", "here it is `bind = ADDRESS:PORT` in [listener NAME]"},
	{"location", "here it is `path = /PREFIX/` in [route NAME]"},
	{"server_name*", "here it is `host = NAME` in [route NAME]"},
	{"proxy_pass", "here it is `server = ADDRESS:PORT` in [upstream NAME], and `upstream = "
		       "NAME` in [route NAME]"},
	{"backend*", "here it is `server = ADDRESS:PORT` in [upstream NAME], and `upstream = NAME` "
		     "in [route NAME]"},
	{"default_backend", "here it is `upstream = NAME` in [route NAME]"},
	{"limit_req*",
		"here it is a [limit NAME] with key and rate, and `limits = NAME` in [route NAME]"},
	{"limit_conn*", "here it is a [limit NAME] with `concurrency = N`, and `limits = NAME` in "
			"[route NAME]"},
	{"limit_rate", "here it is a [limit NAME] in bytes: `rate = 1MB per 1s`"},
	{"stick-table",
		"here it is a [limit NAME] with key and rate, and `limits = NAME` in [route NAME]"},
	{"maxconn", "here it is max_connections in [listener NAME], or max_in_flight in [upstream "
		    "NAME]"},
	{"client_max_body_size", "here it is max_body_size in [route NAME]"},
	{"worker_processes", "here it is workers in [sluice]"},
	{"set_real_ip_from", "here it is trusted_proxies in [listener NAME]"},
	{"proxy_set_header", "here it is `request_header_set = NAME: VALUE` in [route NAME]"},
	{"add_header", "here it is `response_header_set = NAME: VALUE` in [route NAME]"},
	{"keepalive_timeout", "here it is idle_timeout in [listener NAME], or keepalive_timeout in "
			      "[upstream NAME]"},
};

const char *foreign_word(struct slice word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct slice known = slice_of(words[i].word);
		bool any_rest = known.at[known.len - 1] == '*';

		known.len -= any_rest;
		struct slice front = {
			word.at, any_rest && word.len > known.len ? known.len : word.len};
		if (slice_equal_nocase(front, known))
			return words[i].pointer;
	}
	return NULL;
}

/* Variables of the environment are in capitals. */
static bool is_capital(char c)
{
	return (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

bool foreign_is_variable(struct slice text)
{
	for (size_t i = 0; i + 1 < text.len; i++)
		if (text.at[i] == '$' && (text.at[i + 1] == '{' || is_capital(text.at[i + 1])))
			return true;
	return false;
}

/* ---- numbers ---- */

static bool take_decimal(struct slice *text, uint64_t *number, uint64_t *scale)
{
	size_t i = 0;
	bool dot = false;

	*number = 0;
	*scale = 1;
	for (; i < text->len && i < 12; i++) {
		char c = text->at[i];

		if (c == '.' && !dot && i > 0) {
			dot = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		*number = *number * 10 + (uint64_t)(c - '0');
		*scale *= dot ? 10 : 1;
	}
	text->at += i;
	text->len -= i;
	return i > 0 && *number > 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* `number` of a `scale`th, in so many ms: whole numbers for both. */
static const char *rate_text(struct arena *arena, uint64_t number, uint64_t scale, uint64_t ms)
{
	static const struct {
		uint64_t ms;
		const char *unit;
	} units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
	uint64_t divisor = common_divisor(number, scale);
	size_t i = 0;

	number /= divisor;
	ms *= scale / divisor;
	while (ms % units[i].ms != 0)
		i++;
	return arena_format(arena, "%llu per %llu%s", (unsigned long long)number,
		(unsigned long long)(ms / units[i].ms), units[i].unit);
}

/* A period in words or letters; 0: none. */
static uint64_t period_ms(struct slice text)
{
	static const struct {
		const char *word;
		uint64_t ms;
	} periods[] = {{"s", 1000}, {"sec", 1000}, {"second", 1000}, {"m", 60000}, {"min", 60000},
		{"minute", 60000}, {"h", 3600000}, {"hour", 3600000}, {"d", 86400000},
		{"day", 86400000}};

	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++)
		if (slice_equal_nocase(text, slice_of(periods[i].word)))
			return periods[i].ms;
	return 0;
}

const char *foreign_rate(struct arena *arena, struct slice text)
{
	static const struct slice between[] = {
		{"r/", 2}, {"req/", 4}, {"requests/", 9}, {"/", 1}, {" per ", 5}};
	uint64_t number, scale, ms;

	if (!take_decimal(&text, &number, &scale))
		return NULL;
	for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++) {
		struct slice rest = {text.at + between[i].len, text.len - between[i].len};
		uint64_t count = 1, whole = 1;

		if (text.len <= between[i].len ||
			memcmp(text.at, between[i].at, between[i].len) != 0)
			continue;
		rest = slice_trim(rest);
		if (rest.at[0] >= '0' && rest.at[0] <= '9' &&
			(!take_decimal(&rest, &count, &whole) || whole != 1))
			return NULL;
		ms = period_ms(rest);
		return ms && count < 1000 ? rate_text(arena, number, scale, ms * count) : NULL;
	}
	return NULL;
}

const char *foreign_size(struct arena *arena, struct slice text)
{
	uint64_t number, scale;
	struct slice unit = text;

	if (!take_decimal(&unit, &number, &scale) || scale != 1 || unit.len == 0 || unit.len > 3)
		return NULL;
	char letter = unit.at[0] | 0x20;
	struct slice rest = {unit.at + 1, unit.len - 1};

	if (letter == 'b' && rest.len == 0)
		return arena_format(arena, "%llu", (unsigned long long)number);
	if (letter != 'k' && letter != 'm' && letter != 'g')
		return NULL;
	if (rest.len > 0 && !slice_equal_nocase(rest, SLICE("b")) &&
		!slice_equal_nocase(rest, SLICE("ib")))
		return NULL;
	return arena_format(
		arena, "%llu%c", (unsigned long long)number, letter == 'k' ? 'k' : letter & ~0x20);
}

/* ---- keys of limits ---- */

/* A name of a field out of a variable's: http_x_api_key, x_api_key -> x-api-key */
static const char *with_dashes(struct arena *arena, const char *form, struct slice name)
{
	char *text = arena_format(arena, "%s%.*s", form, SLICE_ARGS(name));

	for (char *c = text + strlen(form); *c; c++)
		if (*c == '_')
			*c = '-';
	return text;
}

static bool has_front(struct slice text, struct slice front)
{
	return text.len > front.len && memcmp(text.at, front.at, front.len) == 0;
}

static struct slice behind(struct slice text, struct slice front)
{
	return (struct slice){text.at + front.len, text.len - front.len};
}

const char *foreign_key_part(struct arena *arena, struct slice text)
{
	static const char *const addresses[] = {"$binary_remote_addr", "$remote_addr",
		"remote_addr", "src", "%[src]", "remote_ip", "client_ip", "ip_address", "address",
		"remote_address"};
	static const char *const totals[] = {"global", "total", "static", "*", "any", "everyone"};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (slice_equal_nocase(text, slice_of(addresses[i])))
			return "ip";
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
		if (slice_equal_nocase(text, slice_of(totals[i])))
			return "all";
	if (has_front(text, SLICE("$http_")))
		return with_dashes(arena, "header:", behind(text, SLICE("$http_")));
	if (has_front(text, SLICE("$cookie_")))
		return arena_format(
			arena, "cookie:%.*s", SLICE_ARGS(behind(text, SLICE("$cookie_"))));
	if (has_front(text, SLICE("$arg_")))
		return arena_format(arena, "query:%.*s", SLICE_ARGS(behind(text, SLICE("$arg_"))));
	if (slice_equal_nocase(text, SLICE("$host")) ||
		slice_equal_nocase(text, SLICE("$server_name")))
		return "host";
	if (slice_equal_nocase(text, SLICE("$uri")) ||
		slice_equal_nocase(text, SLICE("$request_uri")))
		return "path";
	/* X-Api-Key, Authorization: fields begin with a capital as people write them. */
	if (text.len > 1 && text.at[0] >= 'A' && text.at[0] <= 'Z') {
		for (size_t i = 1; i < text.len; i++)
			if (!is_letter(text.at[i]) && text.at[i] != '-' &&
				!(text.at[i] >= '0' && text.at[i] <= '9'))
				return NULL;
		return arena_format(arena, "header:%.*s", SLICE_ARGS(text));
	}
	return NULL;
}
