/* See operate.h. */
#include "cli/operate.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/operate_callers.h"
#include "cli/operate_fleet.h"
#include "cli/operate_sockets.h"
#include "cli/table.h"
#include "cli/top.h"
#include "conf/errors.h"

#define DEFAULT_FILE "/etc/sluice/sluice.ini"
#define COUNT(items) (sizeof(items) / sizeof((items)[0]))
#define COUNT_ANY    1000

/* clang-format off */
const char cli_operate_usage[] =
	"       sluice status                                    print the state of a running sluice\n"
	"       sluice limits                                    list the limits and their verdicts\n"
	"       sluice upstreams                                 list the servers of each upstream\n"
	"       sluice sessions                                  list the sessions\n"
	"       sluice top [--refused]                           show rates and callers, updated continuously\n"
	"       sluice callers [--refused] [--count N] [--limit NAME]\n"
	"                                                        list the busiest or most refused callers\n"
	"       sluice callers KEY | --hash HASH [--limit NAME]  print what a caller has used\n"
	"       sluice reset KEY | --hash HASH [--limit NAME]    forget what a caller has used\n"
	"       sluice explain PATH [--method M] [--host H] [--address A] [--listener L]\n"
	"               [--route R] [--field 'N: V']...\n"
	"                                                        print what a request would get\n"
	"       sluice override HASH plan NAME|exempt|deny DURATION, or override HASH end\n"
	"                                                        treat one caller differently for a time\n"
	"       sluice keys set KEY PLAN [--hashed]              assign a key to a plan; - reads KEY from stdin\n"
	"       sluice keys show|revoke|delete KEY               print its plan, refuse it, or forget both\n"
	"       sluice sessions drain|close|abort ID             end a session\n"
	"       sluice sockets [--find NAME=VALUE]... [--channel NAME] [--count N] [--after ID]\n"
	"                                                        list open WebSockets\n"
	"       sluice sockets ID                                print one WebSocket\n"
	"       sluice sockets post|send ID|all TEXT [--binary] [--wait TIME]\n"
	"                                                        send to one, or to all that match --find\n"
	"       sluice sockets close ID|all [--code N] [--reason TEXT] [--wait TIME]\n"
	"       sluice sockets abort|drain ID|all [--wait TIME]  end WebSockets\n"
	"       sluice limits set NAME KEY=VALUE...              change a limit until the next reload\n"
	"       sluice upstreams drain|disable|enable NAME ADDRESS\n"
	"                                                        take a server out of service, or return it\n"
	"       sluice upstreams weight NAME ADDRESS N|file      set its weight until the next start\n"
	"       sluice fleet [--wait-nodes N]                    list the nodes of the fleet and their store\n"
	"       sluice usage [FROM [TO]] [--csv]                 print use by caller and hour, for invoices\n"
	"       sluice log-level error|warn|info|debug           set the log level until the next reload\n"
	"       sluice config                                    print the configuration in effect\n"
	"       sluice reload                                    read the configuration again\n"
	"         these take [-c FILE] or [--admin URL] [--ca FILE] [--token-file FILE], and [--json]\n";
/* clang-format on */

enum {
	GIVEN_ADMIN = 256,
	GIVEN_TOKEN,
	GIVEN_CA,
	GIVEN_JSON,
	GIVEN_LIMIT,
	GIVEN_METHOD,
	GIVEN_HOST,
	GIVEN_ADDRESS,
	GIVEN_ROUTE,
	GIVEN_LISTENER,
	GIVEN_FIELD,
	GIVEN_HASH,
	GIVEN_COUNT,
	GIVEN_REFUSED,
	GIVEN_HASHED,
	GIVEN_CSV,
	GIVEN_WAIT_NODES,
	GIVEN_FIND,
	GIVEN_CHANNEL,
	GIVEN_AFTER,
	GIVEN_CODE,
	GIVEN_REASON,
	GIVEN_WAIT,
	GIVEN_BINARY,
	GIVEN_END
};

/* A set of options. */
#define OPTION(given) (1u << ((given)-GIVEN_ADMIN))
_Static_assert(GIVEN_END - GIVEN_ADMIN <= 32, "a bit for each option");
#define OPTIONS_OF_ALL                                                                             \
	(OPTION(GIVEN_ADMIN) | OPTION(GIVEN_CA) | OPTION(GIVEN_TOKEN) | OPTION(GIVEN_JSON))

struct command {
	const char *word;
	int words_min, words_max;
	int (*run)(struct call *call);
	unsigned options; /* besides those of all commands */
};

/* ---- the commands ---------------------------------------------------------------------------- */

static void print_status(const json_t *answer)
{
	static const struct table_column columns[] = {{"LISTENER", "listener", TABLE_TEXT},
		{"CERTIFICATE", "certificate", TABLE_TEXT}, {"NAME", "name", TABLE_TEXT},
		{"EXPIRES", "expires", TABLE_TEXT}, {"DAYS", "days", TABLE_NUMBER},
		{"PROBLEM", "problem", TABLE_TEXT}};
	const json_t *certificates = json_object_get(answer, "certificates");

	table_print_members(stdout, answer);
	if (json_array_size(certificates) > 0)
		table_print(stdout, certificates, columns, COUNT(columns));
}

static int run_status(struct call *call)
{
	return call_ask(call, "GET", "/api/v1/status", NULL, print_status);
}

static void print_limits(const json_t *answer)
{
	static const struct table_column columns[] = {{"LIMIT", "name", TABLE_TEXT},
		{"ALGORITHM", "algorithm", TABLE_TEXT}, {"AMOUNT", "amount", TABLE_NUMBER},
		{"PER", "per", TABLE_TEXT}, {"CALLERS", "callers", TABLE_NUMBER},
		{"ADMITTED", "verdicts.admitted", TABLE_NUMBER},
		{"REFUSED", "verdicts.refused", TABLE_NUMBER},
		{"DELAYED", "verdicts.delayed", TABLE_NUMBER},
		{"SHADOW", "verdicts.shadow_refused", TABLE_NUMBER}};

	table_print(stdout, json_object_get(answer, "limits"), columns, COUNT(columns));
}

/* One limit, as a table of one row, and what the answer says of the change. */
static void print_limit(const json_t *answer)
{
	json_t *list = json_pack("{s:[O]}", "limits", answer);
	const char *detail = json_string_value(json_object_get(answer, "detail"));

	print_limits(list);
	json_decref(list);
	if (detail)
		puts(detail);
}

static int run_limits(struct call *call)
{
	if (call->word_count > 0)
		return cli_set_limit(call, print_limit);
	return call_ask(call, "GET", "/api/v1/limits", NULL, print_limits);
}

/* `semaphore legacy: holds, 3 of 10 slots for 2 nodes` */
static void print_semaphore(const json_t *semaphore)
{
	if (!json_is_object(semaphore))
		return;
	printf("semaphore %s: %s, %" JSON_INTEGER_FORMAT " held and %" JSON_INTEGER_FORMAT
	       " wanted of %" JSON_INTEGER_FORMAT " slots for %" JSON_INTEGER_FORMAT " nodes, ",
		json_string_value(json_object_get(semaphore, "name")),
		json_string_value(json_object_get(semaphore, "state")),
		json_integer_value(json_object_get(semaphore, "held")),
		json_integer_value(json_object_get(semaphore, "wanted")),
		json_integer_value(json_object_get(semaphore, "slots")),
		json_integer_value(json_object_get(semaphore, "nodes")));
	if (json_is_true(json_object_get(semaphore, "refuses")))
		puts("requests are refused");
	else
		printf("%" JSON_INTEGER_FORMAT " at once\n",
			json_integer_value(json_object_get(semaphore, "bound")));
}

/* `health checks: by node a; published 400ms ago` */
static void print_health(const json_t *health)
{
	const char *role = json_string_value(json_object_get(health, "role"));
	const char *prober = json_string_value(json_object_get(health, "prober"));
	const char *store = json_string_value(json_object_get(health, "store"));
	const json_t *age = json_object_get(health, "age_ms");
	char text[TABLE_MS_BYTES];

	if (!role || strcmp(role, "unshared") == 0)
		return;
	if (strcmp(role, "alone") == 0)
		printf("health checks: by this node for itself, as the %s",
			store && strcmp(store, "away") == 0 ? "store is away"
							    : "fleet's results are too old");
	else if (strcmp(role, "prober") == 0)
		printf("health checks: by this node, %s, for the fleet", prober ? prober : "?");
	else
		printf("health checks: by node %s", prober ? prober : "unknown yet");
	if (json_is_integer(age)) {
		table_format_ms((unsigned long long)json_integer_value(age), text);
		printf("; published %s ago", text);
	}
	putchar('\n');
}

/* `10.0.0.5:443: last failure 1.2s ago: certificate has expired` */
static void print_failures(const json_t *servers)
{
	char age[TABLE_MS_BYTES];
	const json_t *server;
	size_t index;

	json_array_foreach((json_t *)(uintptr_t)servers, index, server)
	{
		const json_t *failure = json_object_get(server, "last_failure");
		const char *why = json_string_value(json_object_get(failure, "why"));
		if (!why)
			continue;
		table_format_ms(
			(unsigned long long)json_integer_value(json_object_get(failure, "age_ms")),
			age);
		printf("%s: last failure %s ago: %s\n",
			json_string_value(json_object_get(server, "address")), age, why);
	}
}

static void print_upstreams(const json_t *answer)
{
	static const struct table_column columns[] = {{"SERVER", "address", TABLE_TEXT},
		{"MODE", "mode", TABLE_TEXT}, {"UP", "up", TABLE_TEXT},
		{"IN FLIGHT", "in_flight", TABLE_NUMBER}, {"STREAMS", "streams", TABLE_NUMBER},
		{"RESPONSES", "responses", TABLE_NUMBER}, {"FAILURES", "failures", TABLE_NUMBER},
		{"FAILURES IN A ROW", "failures_in_a_row", TABLE_NUMBER},
		{"WEIGHT", "weight", TABLE_NUMBER}};
	size_t index;
	const json_t *upstream;

	json_array_foreach(json_object_get(answer, "upstreams"), index, upstream)
	{
		printf("%s%s: %" JSON_INTEGER_FORMAT " responses, %" JSON_INTEGER_FORMAT
		       " failures\n",
			index > 0 ? "\n" : "", json_string_value(json_object_get(upstream, "name")),
			json_integer_value(json_object_get(upstream, "responses")),
			json_integer_value(json_object_get(upstream, "failures")));
		print_semaphore(json_object_get(upstream, "semaphore"));
		print_health(json_object_get(upstream, "health"));
		table_print(stdout, json_object_get(upstream, "servers"), columns, COUNT(columns));
		print_failures(json_object_get(upstream, "servers"));
	}
}

static int run_upstreams(struct call *call)
{
	if (call->word_count > 0)
		return cli_set_server(call);
	return call_ask(call, "GET", "/api/v1/upstreams", NULL, print_upstreams);
}

static void print_sessions(const json_t *answer)
{
	static const struct table_column columns[] = {{"SESSION", "id", TABLE_TEXT},
		{"STATE", "state", TABLE_TEXT}, {"IN FLIGHT", "in_flight", TABLE_NUMBER},
		{"HIGH", "queued_high", TABLE_NUMBER}, {"NORMAL", "queued_normal", TABLE_NUMBER},
		{"COMPLETED", "completed", TABLE_NUMBER}};

	table_print(stdout, json_object_get(answer, "sessions"), columns, COUNT(columns));
	printf("%" JSON_INTEGER_FORMAT " in all\n",
		json_integer_value(json_object_get(answer, "total")));
}

static bool ends_session(const char *verb)
{
	return strcmp(verb, "drain") == 0 || strcmp(verb, "close") == 0 ||
	       strcmp(verb, "abort") == 0;
}

static int run_sessions(struct call *call)
{
	struct query query;

	if (call->word_count == 0)
		return call_ask(call, "GET", "/api/v1/sessions", NULL, print_sessions);
	if (call->word_count != 2 || !ends_session(call->words[0])) {
		fprintf(stderr, "sluice sessions: expected drain, close or abort, and an id\n");
		return 2;
	}
	query_begin(&query, "/api/v1/sessions");
	query_add_segment(&query, call->words[1]);
	query_add_segment(&query, call->words[0]);
	return query_ask(&query, call, "POST", NULL, print_status);
}

/* The matches of the configuration: those that hold, and those that do not. */
static void print_matches(json_t *matches)
{
	const char *name, *separator = "matches: ";
	json_t *holds;

	json_object_foreach(matches, name, holds)
	{
		printf("%s%s%s", separator, json_is_true(holds) ? "" : "!", name);
		separator = ", ";
	}
	if (json_object_size(matches) > 0)
		putchar('\n');
}

static void print_explain(const json_t *answer)
{
	static const struct table_column columns[] = {{"LIMIT", "limit", TABLE_TEXT},
		{"QUOTA", "quota", TABLE_NUMBER}, {"REMAINING", "remaining", TABLE_NUMBER},
		{"RESET IN", "reset_ms", TABLE_MS}, {"VIOLATED", "violated", TABLE_TEXT},
		{"BANNED FOR", "banned_ms", TABLE_MS}, {"SHADOW", "shadow", TABLE_TEXT}};
	const json_t *limits = json_object_get(answer, "limits");

	const json_t *connection = json_object_get(answer, "connection");

	table_print_members(stdout, answer);
	print_matches(json_object_get(answer, "matches"));
	if (json_array_size(limits) > 0) {
		putchar('\n');
		table_print(stdout, limits, columns, COUNT(columns));
	}
	if (connection) {
		printf("\nconnection: %s\n",
			json_string_value(json_object_get(connection, "outcome")));
		table_print(stdout, json_object_get(connection, "limits"), columns, COUNT(columns));
	}
}

/* `Name: value` as field.Name=value. */
static bool add_field(struct query *query, const char *field)
{
	const char *colon = strchr(field, ':');
	char *name = colon ? strndup(field, (size_t)(colon - field)) : NULL;

	if (!name) {
		fprintf(stderr, "sluice explain: \"%s\" is not a field; expected 'Name: value'\n",
			field);
		return false;
	}
	query_add(query, "field.", name, colon + 1 + strspn(colon + 1, " \t"));
	free(name);
	return true;
}

static int run_explain(struct call *call)
{
	struct query query;
	bool good = true;

	query_begin(&query, "/api/v1/explain");
	query_add(&query, "", "path", call->words[0]);
	query_add(&query, "", "method", call->method);
	query_add(&query, "", "host", call->host);
	query_add(&query, "", "address", call->address);
	query_add(&query, "", "listener", call->listener);
	query_add(&query, "", "route", call->route);
	for (size_t i = 0; i < call->field_count; i++)
		good &= add_field(&query, call->fields[i]);
	if (good)
		return query_ask(&query, call, "GET", NULL, print_explain);
	query_drop(&query);
	return 2;
}

static int run_reload(struct call *call)
{
	return call_ask(call, "POST", "/api/v1/reload", NULL, print_status);
}

static const struct command commands[] = {
	{"status", 0, 0, run_status, 0},
	{"limits", 0, COUNT_ANY, run_limits, 0},
	{"upstreams", 0, 4, run_upstreams, 0},
	{"sessions", 0, 2, run_sessions, 0},
	{"sockets", 0, 3, cli_sockets,
		OPTION(GIVEN_FIND) | OPTION(GIVEN_CHANNEL) | OPTION(GIVEN_COUNT) |
			OPTION(GIVEN_AFTER) | OPTION(GIVEN_CODE) | OPTION(GIVEN_REASON) |
			OPTION(GIVEN_WAIT) | OPTION(GIVEN_BINARY)},
	{"callers", 0, 1, cli_callers,
		OPTION(GIVEN_REFUSED) | OPTION(GIVEN_COUNT) | OPTION(GIVEN_LIMIT) |
			OPTION(GIVEN_HASH)},
	{"reset", 0, 1, cli_reset, OPTION(GIVEN_LIMIT) | OPTION(GIVEN_HASH)},
	{"top", 0, 0, cli_top, OPTION(GIVEN_REFUSED)},
	{"keys", 2, 3, cli_keys, OPTION(GIVEN_HASHED)},
	{"override", 2, 4, cli_override, 0},
	{"explain", 1, 1, run_explain,
		OPTION(GIVEN_METHOD) | OPTION(GIVEN_HOST) | OPTION(GIVEN_ADDRESS) |
			OPTION(GIVEN_LISTENER) | OPTION(GIVEN_ROUTE) | OPTION(GIVEN_FIELD)},
	{"fleet", 0, 0, cli_fleet, OPTION(GIVEN_WAIT_NODES)},
	{"reload", 0, 0, run_reload, 0},
	{"usage", 0, 2, cli_usage, OPTION(GIVEN_CSV)},
	{"config", 0, 0, cli_print_config, 0},
	{"log-level", 1, 1, cli_set_log_level, 0},
};

/* ---- the command line ------------------------------------------------------------------------ */

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	{"admin", required_argument, NULL, GIVEN_ADMIN},
	{"token-file", required_argument, NULL, GIVEN_TOKEN},
	{"ca", required_argument, NULL, GIVEN_CA}, {"json", no_argument, NULL, GIVEN_JSON},
	{"limit", required_argument, NULL, GIVEN_LIMIT},
	{"method", required_argument, NULL, GIVEN_METHOD},
	{"host", required_argument, NULL, GIVEN_HOST},
	{"address", required_argument, NULL, GIVEN_ADDRESS},
	{"listener", required_argument, NULL, GIVEN_LISTENER},
	{"route", required_argument, NULL, GIVEN_ROUTE},
	{"field", required_argument, NULL, GIVEN_FIELD},
	{"hash", required_argument, NULL, GIVEN_HASH},
	{"count", required_argument, NULL, GIVEN_COUNT},
	{"refused", no_argument, NULL, GIVEN_REFUSED}, {"hashed", no_argument, NULL, GIVEN_HASHED},
	{"csv", no_argument, NULL, GIVEN_CSV}, {"find", required_argument, NULL, GIVEN_FIND},
	{"channel", required_argument, NULL, GIVEN_CHANNEL},
	{"after", required_argument, NULL, GIVEN_AFTER},
	{"code", required_argument, NULL, GIVEN_CODE},
	{"reason", required_argument, NULL, GIVEN_REASON},
	{"wait", required_argument, NULL, GIVEN_WAIT}, {"binary", no_argument, NULL, GIVEN_BINARY},
	{"wait-nodes", required_argument, NULL, GIVEN_WAIT_NODES}, {"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

/* Where the value of an option goes. NULL: it has none, or is repeated. */
static const char **value_of(struct call *call, int given)
{
	switch (given) {
	case 'c':
		return &call->conf;
	case GIVEN_ADMIN:
		return &call->admin;
	case GIVEN_TOKEN:
		return &call->token_file;
	case GIVEN_CA:
		return &call->ca;
	case GIVEN_LIMIT:
		return &call->limit;
	case GIVEN_METHOD:
		return &call->method;
	case GIVEN_HOST:
		return &call->host;
	case GIVEN_ADDRESS:
		return &call->address;
	case GIVEN_LISTENER:
		return &call->listener;
	case GIVEN_ROUTE:
		return &call->route;
	case GIVEN_HASH:
		return &call->hash;
	case GIVEN_COUNT:
		return &call->count;
	case GIVEN_AFTER:
		return &call->after;
	case GIVEN_CHANNEL:
		return &call->channel;
	case GIVEN_CODE:
		return &call->code;
	case GIVEN_REASON:
		return &call->reason;
	case GIVEN_WAIT:
		return &call->wait;
	case GIVEN_WAIT_NODES:
		return &call->wait_nodes;
	default:
		return NULL;
	}
}

static bool *flag_of(struct call *call, int given)
{
	switch (given) {
	case GIVEN_JSON:
		return &call->json;
	case GIVEN_HASHED:
		return &call->is_hashed;
	case GIVEN_CSV:
		return &call->as_csv;
	case GIVEN_REFUSED:
		return &call->sort_refused;
	case GIVEN_BINARY:
		return &call->is_binary;
	default:
		return NULL;
	}
}

/* One more of an option that is repeated. False: there are too many. */
static bool add_value(const char *values[static FIELDS_MAX], size_t *count)
{
	if (*count == FIELDS_MAX)
		return false;
	values[(*count)++] = optarg;
	return true;
}

/* False: the option is unknown, or there are too many of it. */
static bool take_option(struct call *call, int given)
{
	const char **value = value_of(call, given);
	bool *flag = flag_of(call, given);

	if (given == GIVEN_FIELD)
		return add_value(call->fields, &call->field_count);
	if (given == GIVEN_FIND)
		return add_value(call->terms, &call->term_count);
	if (value)
		*value = optarg;
	if (flag)
		*flag = true;
	return value || flag;
}

/* False: it is another command's. */
static bool belongs(const struct command *command, int given)
{
	if (given < GIVEN_ADMIN || (OPTION(given) & (OPTIONS_OF_ALL | command->options)))
		return true;
	for (const struct option *option = options; option->name; option++) {
		if (option->val == given)
			fprintf(stderr, "sluice %s: unexpected option --%s\n", command->word,
				option->name);
	}
	return false;
}

static const struct command *find_command(const char *word)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i].word, word) == 0)
			return &commands[i];
	}
	return NULL;
}

bool cli_operate_knows(const char *command)
{
	return find_command(command) != NULL;
}

void cli_operate_offer(struct near_miss *near)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		near_miss_offer(near, commands[i].word);
}

int cli_operate(int argc, char **argv)
{
	const struct command *command = find_command(argv[0]);
	struct call call = {.conf = DEFAULT_FILE};
	char title[32]; /* for getopt's messages */
	int given;

	assert(command); /* cli_operate_knows */
	snprintf(title, sizeof(title), "sluice %s", command->word);
	argv[0] = title;
	optind = 1;
	while ((given = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (given == 'h') {
			usage_print_command(stdout, cli_operate_usage, command->word);
			return 0;
		}
		if (!belongs(command, given) || !take_option(&call, given)) {
			usage_refer(command->word);
			return 2;
		}
	}
	call.words = argv + optind;
	call.word_count = argc - optind;
	if (call.word_count < command->words_min || call.word_count > command->words_max) {
		fprintf(stderr, "sluice %s: too %s words\n", command->word,
			call.word_count < command->words_min ? "few" : "many");
		usage_refer(command->word);
		return 2;
	}
	int status = remote_find(&call.remote, call.admin, call.conf, call.token_file);
	call.remote.ca = call.ca;
	if (status == 0) {
		status = command->run(&call);
		if (status == 2)
			usage_refer(command->word);
	}
	remote_clear(&call.remote);
	return status;
}
