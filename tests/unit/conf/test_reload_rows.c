/* What a reload does with each option: every row of the table says it, and no row can change
 * without being seen. Rows of plain types have a sample by their bounds and words; the others, and
 * those that need other lines, are below, once for each part of a value. */
#include "config.h"

#include <stdbool.h>

#include "conf/build.h"
#include "conf/compare.h"
#include "text.h"
#include "tests/unit/suite.h"

struct sample {
	enum section_id section;
	const char *key;
	const char *a, *b;     /* two values; NULL: the key is not there */
	const char *a_as_well; /* the first, written otherwise; NULL: there is no other way */
	const char *needs;     /* lines that the key can't be without */
};

#define S      SECTION_SLUICE
#define L      SECTION_LISTENER
#define U      SECTION_UPSTREAM
#define R      SECTION_ROUTE
#define F      SECTION_FLEET
#define M      SECTION_SEMAPHORE
#define LINKED "bind = 127.0.0.1:7946\nsecret = file:/a\n"

#define MESSAGES "websocket = messages"

/* clang-format off */
static const struct sample samples[] = {
	{S, "include", NULL, "/tmp/none.d/*.ini", NULL, NULL},
	{S, "workers", "2", "3", NULL, NULL},
	{S, "state", NULL, "/tmp", NULL, NULL},
	{S, "state_required", "off", "on", "no", "state = /tmp"},
	{S, "grip_key", "file:/a", "file:/b", NULL, NULL},
	{S, "buffering_folder", "/tmp", "/var/tmp", NULL, NULL},
	{S, "error_log", "stderr", "file:/tmp/x", NULL, NULL},
	{S, "access_log", "off", "stdout", NULL, NULL},
	{S, "request_id", "X-Request-Id", "off", NULL, NULL},
	{S, "usage", "0", "1m", NULL, "state = /x"},
	{S, "via", "off", "other", NULL, NULL},
	{S, "pid_file", NULL, "/tmp/pid", NULL, NULL},
	{S, "user", NULL, "nobody", NULL, NULL},
	{SECTION_ADMIN, "bind", "127.0.0.1:8", "127.0.0.1:9", NULL, NULL},
	{SECTION_ADMIN, "token", "file:/a", "file:/b", NULL, NULL},
	{L, "bind", "127.0.0.1:10", "127.0.0.1:11", NULL, NULL},
	{L, "certificate", NULL, "/a.pem", NULL, NULL},
	{L, "certificate_key", NULL, "/a.key", NULL, "certificate = /a.pem"},
	{L, "tls_versions", "1.2, 1.3", "1.3", "1.3, 1.2", "certificate = /a.pem"},
	{L, "tls_ciphers", NULL, "B", NULL, "certificate = /a.pem"},
	{L, "handshake_timeout", "1s", "2s", "1000ms", "certificate = /a.pem"},
	{L, "max_handshakes", "1k", "2k", "1000", "certificate = /a.pem"},
	{L, "certificate_password", NULL, "file:/a", NULL, "certificate = /a.pem"},
	{L, "tls_groups", NULL, "X25519", NULL, "certificate = /a.pem"},
	{L, "unknown_names", "first", "refuse", NULL, "certificate = /a.pem"},
	{L, "client_ca", NULL, "/a.pem", NULL, "certificate = /a.pem"},
	{L, "client_crl", NULL, "/a.pem", NULL, "certificate = /a.pem\nclient_ca = /a.pem"},
	{L, "verify", "required", "optional", NULL, "certificate = /a.pem\nclient_ca = /a.pem"},
#ifdef HAVE_HTTP2
	{L, "protocols", "http/1.1", "h2, http/1.1", NULL, NULL},
	{L, "max_streams", "100", "200", NULL, "protocols = h2"},
#else
	{L, "protocols", NULL, "http/1.1", NULL, NULL},
	{L, "max_streams", NULL, "200", NULL, "protocols = http/1.1"},
#endif
	{L, "acme_challenge", NULL, "/a", NULL, NULL},
	{L, "redirect", "off", "https", NULL, NULL},
	{L, "redirect", "https", "https:8443", "https:443", NULL},
	{L, "hsts", NULL, "1d", NULL, "certificate = /a.pem"},
	{L, "hsts", "1d", "1d includeSubDomains", "24h", "certificate = /a.pem"},
	{L, "trusted_proxies", NULL, "10.0.0.0/8", NULL, NULL},
	{L, "proxy_protocol", "on", "required", NULL, "trusted_proxies = 10.0.0.0/8"},
	{L, "limits", NULL, "k", NULL, NULL},
	{L, "max_connections", "1k", "auto", "1000", NULL},
	{L, "response_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{L, "response_header_remove", "X-A", "X-B", NULL, NULL},
	{SECTION_ADMIN, "certificate", NULL, "/a.pem", NULL, NULL},
	{SECTION_ADMIN, "certificate_key", NULL, "/a.key", NULL, "certificate = /a.pem"},
	{U, "server", "127.0.0.1:20", "127.0.0.1:21", NULL, NULL},
	{U, "hash_key", NULL, "ip", NULL, "balance = hash"},
	{U, "max_in_flight", "1k", "auto", "1000", NULL},
	{U, "max_in_flight_floor", "1", "2", NULL, "max_in_flight = auto"},
	{U, "max_in_flight_ceiling", "1k", "2k", "1000", "max_in_flight = auto"},
	{U, "pace", "5 per 1s", "5 per 2s", "5 per 1000ms", NULL},
	{U, "pace", "5 per 1s", "6 per 1s", NULL, NULL},
	{U, "shed_interval", "1s", "2s", "1000ms", "shed_target = 1s"},
	{U, "stream_types", NULL, "application/x-ndjson", NULL, NULL},
#ifdef HAVE_RABBITMQ
	{U, "semaphore", NULL, "x", NULL, NULL},
	{U, "semaphore_idle", "1s", "2s", "1000ms", "semaphore = x"},
	{U, "semaphore_down", "local", "refuse", NULL, "semaphore = x"},
#endif
	{U, "lenient", NULL, "bare_lf", NULL, NULL},
	{U, "health_path", "/a", "/b", NULL, NULL},
	{U, "health_host", "a", "b", NULL, "health_path = /"},
	{U, "health_interval", "1s", "2s", "1000ms", "health_path = /"},
	{U, "health_timeout", "1s", "2s", "1000ms", "health_path = /"},
	{U, "health_shared", "off", "on", "no", "health_path = /"},
	{U, "tls", "off", "on", "no", NULL},
	{U, "tls_ca", NULL, "/a.pem", NULL, "tls = on"},
	{U, "tls_crl", NULL, "/a.pem", NULL, "tls = on"},
	{U, "tls_name", NULL, "a.test", NULL, "tls = on"},
	{U, "tls_verify", "on", "off", "yes", "tls = on"},
	{U, "tls_versions", "1.2, 1.3", "1.3", "1.3, 1.2", "tls = on"},
	{U, "tls_certificate", NULL, "/a.pem", NULL, "tls = on"},
	{U, "tls_certificate_key", NULL, "/a.key", NULL, "tls = on\ntls_certificate = /a.pem"},
	{SECTION_SERVER, "tls", "off", "on", NULL, NULL},
	{SECTION_SERVER, "tls_name", "a.test", "b.test", NULL, NULL},
	{SECTION_LIMIT, "key", "ip", "header:X-Key", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per 1s", "5 per 2s", "5 per 1000ms", NULL},
	{SECTION_LIMIT, "rate", "5 per 1s", "6 per 1s", NULL, NULL},
	{SECTION_LIMIT, "rate", "5M per 1s", "5MB per 1s", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per day", "5 per week", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per day UTC", "5 per day Europe/Oslo", NULL, NULL},
	{SECTION_LIMIT, "concurrency", "5", "6", NULL, NULL},
	{SECTION_LIMIT, "burst", "1", "2", NULL, "algorithm = gcra"},
	{SECTION_LIMIT, "precision", "2", "exact", NULL, NULL},
	{SECTION_LIMIT, "on_exceed", "reject", "delay 1s", NULL, NULL},
	{SECTION_LIMIT, "scope", "node", "fleet", NULL, "fleet = exact"},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "5 per 1m for 2h", "5 per 60s for 60m", NULL},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "6 per 1m for 1h", NULL, NULL},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "5 per 2m for 1h", NULL, NULL},
	{SECTION_LIMIT, "when", NULL, "m", NULL, NULL},
	{SECTION_LIMIT, "when", "m", "!m", NULL, NULL},
	{SECTION_MATCH, "all", "path = /a", "path = /b", NULL, NULL},
	{SECTION_MATCH, "any", "path = /a", "path ^= /a", NULL, NULL},
	{SECTION_PLAN, "when", NULL, "m", NULL, NULL},
	{R, "when", NULL, "m", NULL, NULL},
	{R, "deny", "match:m", "match:!m", NULL, NULL},
	{SECTION_PLANS, "key", "ip", "header:X-Key", NULL, NULL},
	{SECTION_PLAN, "limits", "x", "y", NULL, NULL},
	{SECTION_PLAN, "callers", "file:/a", "file:/b", NULL, NULL},
	{F, "store", "redis://127.0.0.1", "redis://127.0.0.1/1", "redis://127.0.0.1:6379/0", NULL},
	{F, "store", "redis://127.0.0.1", "redis://127.0.0.2", NULL, NULL},
	{F, "store", "redis://a:p@127.0.0.1", "redis://b:p@127.0.0.1", NULL, NULL},
	{F, "store", "redis://127.0.0.1", "rediss://127.0.0.1", NULL, NULL},
	{F, "tls_ca", NULL, "/a.pem", NULL, NULL},
	{F, "tls_crl", NULL, "/a.pem", NULL, NULL},
	{F, "tls_name", NULL, "a.test", NULL, NULL},
	{F, "tls_verify", "on", "off", "yes", NULL},
	{F, "tls_versions", "1.2, 1.3", "1.3", "1.3, 1.2", NULL},
	{F, "tls_certificate", NULL, "/a.pem", NULL, NULL},
	{F, "tls_certificate_key", NULL, "/a.key", NULL, "tls_certificate = /a.pem"},
	{F, "password", "file:/a", "file:/b", NULL, NULL},
	{F, "sentinel_user", "one", "two", NULL,
		"sentinel = one\nsentinel_password = file:/a"},
	{F, "sentinel_password", "file:/a", "file:/b", NULL, "sentinel = one"},
	{F, "bind", "127.0.0.1:7946", "127.0.0.1:7947", NULL, "secret = file:/a"},
	{F, "secret", "file:/a", "file:/b", NULL, "bind = 127.0.0.1:7946"},
	{F, "certificate", "/a.pem", "/b.pem", NULL, LINKED "ca = /a.pem"},
	{F, "certificate_key", NULL, "/a.key", NULL, LINKED "ca = /a.pem\ncertificate = /a.pem"},
	{F, "ca", "/a.pem", "/b.pem", NULL, LINKED "certificate = /a.pem"},
	{F, "crl", NULL, "/a.pem", NULL, LINKED "ca = /a.pem\ncertificate = /a.pem"},
	{M, "broker", "amqp://127.0.0.1", "amqp://127.0.0.1/a", "amqp://127.0.0.1:5672/%2F", NULL},
	{M, "broker", "amqp://127.0.0.1", "amqp://127.0.0.2", NULL, NULL},
	{M, "broker", "amqp://a:p@127.0.0.1", "amqp://b:p@127.0.0.1", NULL, NULL},
	{M, "broker", "amqp://127.0.0.1", "amqps://127.0.0.1", NULL, NULL},
	{M, "tls_ca", NULL, "/a.pem", NULL, NULL},
	{M, "tls_crl", NULL, "/a.pem", NULL, NULL},
	{M, "tls_name", NULL, "a.test", NULL, NULL},
	{M, "tls_verify", "on", "off", "yes", NULL},
	{M, "tls_versions", "1.2, 1.3", "1.3", "1.3, 1.2", NULL},
	{M, "tls_certificate", NULL, "/a.pem", NULL, NULL},
	{M, "tls_certificate_key", NULL, "/a.key", NULL, "tls_certificate = /a.pem"},
	{M, "password", "file:/a", "file:/b", NULL, NULL},
	{R, "host", NULL, "a.test", NULL, NULL},
	{R, "path", "/a", "=/a", NULL, NULL},
	{R, "path", "/a", "/b", NULL, NULL},
	{R, "method", NULL, "GET", NULL, NULL},
	{R, "upstream", "x", "y", NULL, NULL},
	{R, "limits", "x, plan", "plan, x", "x,plan", "session = ip"},
	{R, "session", "ip", "header:X-Key", NULL, NULL},
	{R, "request_buffering", "64k file 1M", "64k", "65536 file 1024k", NULL},
	{R, "request_buffering", "64k file 1M", "32k file 1M", NULL, NULL},
	{R, "response_buffering", "off", "64k file 1M", NULL, NULL},
	{R, "cost", "5", "response:X-Cost", NULL, "limits = x"},
	{R, "cost", "5", "6", NULL, "limits = x"},
	{R, "cost", "response:X-A", "response:X-B", NULL, "limits = x"},
	{R, "refund", NULL, "5xx", NULL, "limits = x"},
	{R, "upgrade", "websocket", "off", NULL, NULL},
	{R, "websocket", "tunnel", "messages", NULL, NULL},
	{R, "message_limits", "x, plan", "plan, x", "x,plan", MESSAGES},
	{R, "on_message_exceed", "delay 1s", "drop", "delay 1000ms", MESSAGES},
	{R, "on_message_exceed", "delay 1s", "delay 2s", NULL, MESSAGES},
	{R, "message_notice", NULL, "slow down", NULL, MESSAGES "\non_message_exceed = drop"},
	{R, "max_sockets", NULL, "c", NULL, MESSAGES},
	{R, "websocket_origin", NULL, "https://a.test", NULL, MESSAGES},
	{R, "websocket_protocols", "a", "a, b", NULL, MESSAGES},
	{R, "request_trailers", NULL, "X-A", NULL, NULL},
	{R, "request_header_set", "X-A: 1", "X-A: 2", NULL, NULL},
	{R, "request_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{R, "request_header_remove", "X-A", "X-B", NULL, NULL},
	{R, "response_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{R, "response_header_remove", "X-A", "X-A, X-B", NULL, NULL},
	{R, "strip_prefix", NULL, "/x", NULL, NULL},
	{R, "add_prefix", "/a", "/b", NULL, NULL},
	{R, "allow", "10.0.0.0/8", "10.0.0.0/9", NULL, "limits = x"},
	{R, "deny", "10.0.0.0/8", "10.0.0.0/9", NULL, NULL},
};

/* A file that every option has a place in. */
static const struct part {
	enum section_id id;
	const char *title, *key, *line; /* what it can't be without */
} parts[] = {
	{SECTION_SLUICE, "sluice", "", ""},
	{SECTION_ADMIN, "admin", "bind", "bind = 127.0.0.1:1\n"},
	{SECTION_LISTENER, "listener x", "bind", "bind = 127.0.0.1:2\n"},
	{SECTION_UPSTREAM, "upstream x", "server", "server = 127.0.0.1:3\n"},
	{SECTIONS, "upstream y", "", "server = 127.0.0.1:4\n"},
	{SECTION_MATCH, "match x", "all", "all = method = GET\n"},
	{SECTIONS, "match m", "", "all = method = PUT\n"},
	{SECTION_LIMIT, "limit x", "rate", "rate = 9 per 1s\n"},
	{SECTIONS, "limit y", "", "rate = 9 per 1s\n"},
	{SECTIONS, "limit c", "", "concurrency = 1\n"},
	{SECTIONS, "limit k", "", "unit = connections\nconcurrency = 1\n"},
	{SECTION_PLANS, "plans", "key", "key = ip\n"},
	{SECTION_PLAN, "plan x", "callers", "callers = file:/x\n"},
	{SECTION_FLEET, "fleet", "store", "store = redis://127.0.0.1:5\n"},
	{SECTION_SEMAPHORE, "semaphore x", "broker", "broker = amqp://127.0.0.1:5\n"},
	{SECTION_ROUTE, "route x", "upstream", "upstream = x\n"},
	{SECTIONS, "route z", "", "upstream = y\npath = =/z\nlimits = y, plan\n"},
};
/* clang-format on */

static void put_part(
	FILE *out, const struct part *part, const struct sample *sample, const char *value)
{
	bool here = part->id == sample->section;
	bool replaces = here && (strcmp(part->key, sample->key) == 0 ||
					(strcmp(part->key, "rate") == 0 &&
						strcmp(sample->key, "concurrency") == 0));

	fprintf(out, "[%s]\n", part->title);
	if (part->id == SECTION_UPSTREAM && sample->section == SECTION_SERVER)
		fprintf(out, "server = 127.0.0.1:3 %s=%s\n", sample->key, value);
	else if (!replaces)
		fputs(part->line, out);
	if (here && value)
		fprintf(out, "%s = %s\n", sample->key, value);
	if (part->id == SECTION_FLEET &&
		(strcmp(sample->key, "session_scope") == 0 ||
			(sample->needs && strstr(sample->needs, "session_scope"))))
		fputs("bind = 127.0.0.1:6\nsecret = file:/x\n", out);
	if (here && sample->needs)
		fprintf(out, "%s\n", sample->needs);
}

static bool is_section_built(enum section_id id)
{
#ifndef HAVE_REDIS
	if (id == F)
		return false;
#endif
#ifndef HAVE_RABBITMQ
	if (id == M)
		return false;
#endif
	(void)id;
	return true;
}

static const struct conf *with(const struct sample *sample, const char *value)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (is_section_built(parts[i].id))
			put_part(out, &parts[i], sample, value);
	fclose(out);
	const struct conf *conf = parse_good(text);
	free(text);
	return conf;
}

struct seen {
	const struct option *option; /* the only one */
	unsigned count;
};

static void note(const void *user, const struct conf_change *change)
{
	struct seen *seen = *(struct seen *const *)user;

	assert_int_equal(change->kind, CONF_CHANGE_SET);
	seen->option = change->option;
	seen->count++;
}

static struct seen compare(const struct conf *a, const struct conf *b, enum conf_compare which)
{
	struct seen seen = {NULL, 0}, *at = &seen;

	conf_compare(a, b, which, note, &at);
	return seen;
}

static bool has_sample(enum section_id section, const char *key)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (samples[i].section == section && strcmp(samples[i].key, key) == 0)
			return true;
	}
	return false;
}

/* Values of plain types, and between which numbers they lie: a row gets the first within its
 * bounds. */
static const struct plain {
	const struct option_type *type;
	uint64_t least, most;
	const char *a, *b, *a_as_well;
} plain[] = {
	{&type_flag, 0, 0, "off", "on", "no"},
	{&type_text, 0, 0, "one", "two", NULL},
	{&type_token, 0, 0, "one", "two", NULL},
	{&type_duration, 1000, 2000, "1s", "2s", "1000ms"},
	{&type_duration, 60000, 120000, "1m", "2m", "60s"},
	{&type_count32, 1000, 2000, "1k", "2k", "1000"},
	{&type_count32, 10, 20, "10", "20", NULL},
	{&type_count32, 1, 2, "1", "2", NULL},
	{&type_count64, 1000, 2000, "1k", "2k", "1000"},
	{&type_size32, 4096, 8192, "4k", "8k", "4096"},
	{&type_size32, 512, 1024, "512", "1k", NULL},
	{&type_size64, 1 << 20, 2 << 20, "1M", "2M", "1024k"},
};

/* The line that gives the option an effect. A file that it would name has a sample of its own. */
static const char *needs_of(enum section_id section, const struct option *option)
{
	static char line[64];
	const struct option *other = option->needs.key ? option_find(&option_sections[section],
								 slice_of(option->needs.key))
						       : NULL;

	if (!other || !other->words)
		return NULL;
	snprintf(line, sizeof(line), "%s = %s", option->needs.key, option->needs.value);
	return line;
}

/* The sample of a row of a plain type. False: it is of another type. */
static bool make_sample(enum section_id section, const struct option *option, struct sample *sample)
{
	*sample =
		(struct sample){section, option->name, NULL, NULL, NULL, needs_of(section, option)};
	if (option->type == &type_word || option->type == &type_choice) {
		sample->a = option->words[0].word;
		sample->b = option->words[1].word;
	}
	for (size_t i = 0; !sample->a && i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (plain[i].type != option->type ||
			(option->max > 0 &&
				(plain[i].least < option->min || plain[i].most > option->max)))
			continue;
		sample->a = plain[i].a;
		sample->b = plain[i].b;
		sample->a_as_well = plain[i].a_as_well;
	}
	return sample->a;
}

/* The row that a change of the sample is reported by: that of the whole server line, for its own.
 */
static const struct option *row_of(const struct sample *sample)
{
	bool inside = sample->section == SECTION_SERVER;
	const struct option_section *section =
		&option_sections[inside ? SECTION_UPSTREAM : sample->section];

	return option_find(section, slice_of(inside ? "server" : sample->key));
}

static void each_row_says_what_a_reload_does_with_it(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];
		for (size_t j = 0; j < *section->option_count; j++) {
			const struct option *option = &section->options[j];
			struct sample made;
			if (option->reload != RELOAD_UNSET &&
				(has_sample(section->id, option->name) ||
					make_sample(section->id, option, &made)))
				continue;
			fprintf(stderr, "# [%s] %s: %s\n", section->kind, option->name,
				option->reload == RELOAD_UNSET ? "no .reload in its row"
							       : "no sample in this test");
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void each_row_of_a_route_says_whether_it_restricts(void **state)
{
	(void)state;
	for (size_t i = 0; i < options_route_count; i++) {
		if (options_route[i].route == ROUTE_UNSET)
			fprintf(stderr, "# [route] %s: no .route in its row\n",
				options_route[i].name);
		assert_int_not_equal(options_route[i].route, ROUTE_UNSET);
	}
}

static void check_sample(const struct sample *sample)
{
	const struct option *row = row_of(sample);
	const struct conf *a = with(sample, sample->a), *b = with(sample, sample->b);
	const struct conf *again = with(sample, sample->a_as_well ? sample->a_as_well : sample->a);
	bool at_start = row->reload == RELOAD_START;
	struct seen live = compare(a, b, CONF_COMPARE_LIVE);
	struct seen start = compare(a, b, CONF_COMPARE_START);

	if (live.count + start.count != 1 || (at_start ? start : live).option != row)
		fprintf(stderr, "# %s: %u live, %u at the start\n", sample->key, live.count,
			start.count);
	assert_int_equal(live.count, !at_start);
	assert_int_equal(start.count, at_start);
	assert_ptr_equal((at_start ? start : live).option, row);
	assert_int_equal(compare(a, again, CONF_COMPARE_LIVE).count, 0);
	assert_int_equal(compare(a, again, CONF_COMPARE_START).count, 0);
	conf_release(a);
	conf_release(b);
	conf_release(again);
}

/* Without libwslay there are only tunnels, without hiredis only one node, without librabbitmq no
 * semaphores. */
static bool is_built(const struct sample *sample)
{
	if (!is_section_built(sample->section))
		return false;
#ifndef HAVE_REDIS
	if (strcmp(sample->key, "scope") == 0 || strcmp(sample->key, "session_scope") == 0 ||
		strcmp(sample->key, "health_shared") == 0)
		return false;
#endif
#ifdef HAVE_WEBSOCKET
	(void)sample;
	return true;
#else
	return strcmp(sample->key, "websocket") != 0 &&
	       !(sample->needs && strncmp(sample->needs, MESSAGES, strlen(MESSAGES)) == 0);
#endif
}

static void each_change_is_seen_once_and_only_when_it_is_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (is_built(&samples[i]))
			check_sample(&samples[i]);
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];
		for (size_t j = 0; j < *section->option_count; j++) {
			const struct option *option = &section->options[j];
			struct sample made;
			if (!has_sample(section->id, option->name) &&
				make_sample(section->id, option, &made) && is_built(&made))
				check_sample(&made);
		}
	}
}

static void note_sections(const void *user, const struct conf_change *change)
{
	char *text = *(char *const *)user;
	static const char *const kinds[] = {"+", "-", "="};

	strcat(text, kinds[change->kind]);
	strcat(text, change->title);
}

static void sections_that_come_and_go_are_reported_as_a_whole(void **state)
{
	const struct conf *a = parse_good(TEXT_BASE "[limit old]\nrate = 1 per 1s\n");
	const struct conf *b = parse_good(TEXT_BASE "[limit new]\nrate = 1 per 1s\n");
	char text[200] = "", *at = text;

	(void)state;
	conf_compare(a, b, CONF_COMPARE_LIVE, note_sections, &at);
	conf_compare(a, b, CONF_COMPARE_START, note_sections, &at);
	assert_string_equal(text, "+[limit new]-[limit old]");
	conf_release(a);
	conf_release(b);
}

UNIT_SUITE(test_reload_rows)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_says_what_a_reload_does_with_it),
		cmocka_unit_test(each_row_of_a_route_says_whether_it_restricts),
		cmocka_unit_test(each_change_is_seen_once_and_only_when_it_is_one),
		cmocka_unit_test(sections_that_come_and_go_are_reported_as_a_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
