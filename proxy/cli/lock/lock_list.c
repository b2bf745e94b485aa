#include "cli/table.h"
#include "cli/lock/lock_list.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "cli/run.h"
#include "cli/lock/lock_command.h"
#include "cli/lock/lock_store.h"
#include "store/cluster_map.h"

#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

const char cli_locks_usage[] =
	"       sluice locks [-c FILE] [--json]                  list the locks and holders\n"
	"       sluice locks show NAME [-c FILE] [--json]        print one; 75: no session holds "
	"it\n"
	"       sluice locks end NAME [-c FILE] [--json]         end the session that holds it\n";

/* The store has to have answered something by then: of many locks it answers for long. And what it
 * does not answer is asked again until so long after the first failure, whatever else it answers.
 */
enum { TIME_MS = 10000, SILENCE_MS = 2000, RETRY_MS = 200 };

/* Of a part of the store: a page of its list on its way. */
struct page {
	struct store_call call;
	struct listing *listing;
	unsigned part;
	char *command;
	char cursor[24];
};

struct look {
	struct lock_ask ask;
	struct listing *listing;
	struct look *next;
	char name[LOCK_NAME_BYTES];
};

struct listing {
	struct lock_store store;
	const char *name; /* of the lock to end or to show; NULL: list */
	bool is_shown;    /* that lock; nothing ends */
	uint64_t fence;   /* of its session; 0: not known yet */
	bool may_have_ended;
	struct look *looks; /* all that were made */
	json_t *names;      /* of these: a list in pages may have one twice */
	struct page *pages; /* one a part */
	unsigned first_part, part_count;
	unsigned under_way;
	bool has_begun, has_failed;
	struct deadline retry, last;
	uint64_t answered_ms;
	uint64_t failed_ms; /* the first time; 0: not yet */
	json_t *rows;
};

/* ---- one lock -------------------------------------------------------------------------------- */

static void add_row(struct listing *listing, const char *name, const struct lock_answer *answer)
{
	bool is_active = answer->status == LOCK_BUSY;

	json_array_append_new(listing->rows,
		json_pack("{s:s,s:s,s:s,s:I,s:I}", "name", name, "state",
			is_active ? "active" : "lapsed", "session", answer->session, "fence",
			(json_int_t)answer->fence, "left_ms", (json_int_t)answer->left_ms));
}

static void on_looked(struct lock_ask *ask, const struct lock_answer *answer)
{
	struct look *look = CONTAINER_OF(ask, struct look, ask);
	struct listing *listing = look->listing;

	listing->under_way--;
	if (answer->status == LOCK_UNKNOWN) {
		listing->has_failed = true;
		return;
	}
	listing->answered_ms = loop_now_ms(&listing->store.loop);
	if (answer->status == LOCK_FREE && listing->is_shown)
		json_array_append_new(
			listing->rows, json_pack("{s:s,s:s}", "name", look->name, "state", "free"));
	if (answer->status == LOCK_BUSY || answer->status == LOCK_LAPSED)
		add_row(listing, look->name, answer);
}

static void ask(struct listing *listing, const char *name, enum lock_verb verb,
	void (*done)(struct lock_ask *ask, const struct lock_answer *answer))
{
	struct look *look = calloc(1, sizeof(*look));

	if (!look) {
		listing->has_failed = true;
		return;
	}
	snprintf(look->name, sizeof(look->name), "%s", name);
	look->listing = listing;
	look->next = listing->looks;
	listing->looks = look;
	look->ask = (struct lock_ask){.kind = LOCK_OF_COMMANDS,
		.verb = verb,
		.name = look->name,
		.number = verb == LOCK_END ? listing->fence : 0,
		.lease_ms = 1,
		.keep_ms = LOCK_STORE_KEEP_MS,
		.done = done};
	listing->under_way++;
	locks_ask(&listing->store.locks, &look->ask);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void find_session(struct listing *listing);

/* Asked again after no answer, it names the same session: one that has taken the lock meanwhile
 * goes on. One that is over without that has ended by itself before it was asked to. */
static void on_ended(struct lock_ask *ask, const struct lock_answer *answer)
{
	struct look *look = CONTAINER_OF(ask, struct look, ask);
	struct listing *listing = look->listing;

	listing->under_way--;
	if (answer->status == LOCK_UNKNOWN) {
		listing->has_failed = listing->may_have_ended = true;
	} else if (answer->status == LOCK_OVER && !listing->may_have_ended) {
		json_array_clear(listing->rows);
		find_session(listing);
	}
}

static void on_found(struct lock_ask *lock_ask, const struct lock_answer *answer)
{
	struct look *look = CONTAINER_OF(lock_ask, struct look, ask);
	struct listing *listing = look->listing;

	listing->under_way--;
	if (answer->status == LOCK_UNKNOWN) {
		listing->has_failed = true;
	} else if (answer->status == LOCK_BUSY || answer->status == LOCK_LAPSED) {
		listing->fence = answer->fence;
		json_array_append_new(listing->rows,
			json_pack("{s:s,s:s,s:I}", "name", listing->name, "session",
				answer->session, "fence", (json_int_t)answer->fence));
		ask(listing, listing->name, LOCK_END, on_ended);
	}
}

static void find_session(struct listing *listing)
{
	listing->fence = 0;
	ask(listing, listing->name, LOCK_LOOK, on_found);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* False: it is known already. */
static bool add_name(struct listing *listing, const char *name)
{
	if (json_object_get(listing->names, name))
		return false;
	if (json_object_set_new(listing->names, name, json_true()) != 0)
		listing->has_failed = true;
	return true;
}

static void ask_page(struct page *page);

static void read_page(struct page *page, char *text)
{
	struct listing *listing = page->listing;
	char *rest = NULL, *line = strtok_r(text, "\n", &rest);

	if (!line || strlen(line) >= sizeof(page->cursor)) {
		listing->has_failed = true;
		return;
	}
	strcpy(page->cursor, line);
	while ((line = strtok_r(NULL, "\n", &rest))) {
		const char *name = lock_name_in_key(
			line, listing->store.locks.prefix, page->part, LOCK_OF_COMMANDS);
		if (name && add_name(listing, name))
			ask(listing, name, LOCK_LOOK, on_looked);
	}
	if (strcmp(page->cursor, "0") != 0)
		ask_page(page);
}

static void on_page(struct store_call *call, const char *bytes, size_t len)
{
	struct page *page = CONTAINER_OF(call, struct page, call);
	char *text = bytes ? strndup(bytes, len) : NULL;

	page->listing->under_way--;
	if (text)
		read_page(page, text);
	else
		page->listing->has_failed = true;
	free(text);
}

static void ask_page(struct page *page)
{
	struct listing *listing = page->listing;
	size_t len;

	free(page->command);
	page->command = lock_compose_list(
		listing->store.locks.prefix, page->part, LOCK_OF_COMMANDS, page->cursor, &len);
	page->call = store_call_of(page->command, len, slot_of_part(page->part), on_page);
	if (page->command && store_link_send(&listing->store.link, &page->call))
		listing->under_way++;
	else
		listing->has_failed = true;
}

static void begin_list(struct listing *listing)
{
	bool is_cluster = listing->store.link.cluster != NULL;

	listing->part_count = is_cluster ? SLOT_PARTS : 1;
	if (!listing->pages)
		listing->pages = calloc(listing->part_count, sizeof(*listing->pages));
	if (!listing->pages) {
		listing->has_failed = true;
		return;
	}
	for (unsigned i = 0; i < listing->part_count; i++) {
		struct page *page = &listing->pages[i];
		page->listing = listing;
		page->part = is_cluster ? i + 1 : 0;
		strcpy(page->cursor, "0");
		ask_page(page);
	}
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void free_looks(struct listing *listing)
{
	while (listing->looks) {
		struct look *look = listing->looks;
		listing->looks = look->next;
		free(look);
	}
}

static void begin(struct listing *listing)
{
	listing->has_begun = true;
	if (listing->is_shown)
		ask(listing, listing->name, LOCK_LOOK, on_looked);
	else if (listing->fence > 0)
		ask(listing, listing->name, LOCK_END, on_ended);
	else if (listing->name)
		find_session(listing);
	else
		begin_list(listing);
}

static void on_store_changed(struct lock_store *store)
{
	struct listing *listing = CONTAINER_OF(store, struct listing, store);

	if (!listing->has_begun && store_link_has_all(&store->link))
		begin(listing);
}

/* What could not be asked, or was not answered, is asked again. */
static void on_retry(struct deadline *deadline)
{
	struct listing *listing = CONTAINER_OF(deadline, struct listing, retry);

	free_looks(listing);
	json_object_clear(listing->names);
	if (listing->fence == 0)
		json_array_clear(listing->rows);
	listing->has_failed = listing->has_begun = false;
	on_store_changed(&listing->store);
}

static void give_up(struct listing *listing)
{
	lock_store_print_front(&listing->store);
	fputs("no answer in time\n", stderr);
	listing->store.is_refused = true;
}

static bool is_done(struct listing *listing)
{
	struct lock_store *store = &listing->store;
	uint64_t now_ms;

	if (store->is_refused)
		return true;
	if (!listing->has_begun || listing->under_way > 0)
		return false;
	if (!listing->has_failed)
		return true;
	now_ms = loop_now_ms(&store->loop);
	if (listing->failed_ms == 0)
		listing->failed_ms = now_ms;
	if (lock_store_look_refused(store))
		return true;
	if (now_ms >= listing->failed_ms + TIME_MS)
		give_up(listing);
	else if (listing->retry.at_ms == DEADLINE_NEVER)
		deadline_set(&listing->retry, now_ms + RETRY_MS, now_ms);
	return store->is_refused;
}

static void on_last(struct deadline *deadline)
{
	struct listing *listing = CONTAINER_OF(deadline, struct listing, last);
	uint64_t now_ms = loop_now_ms(&listing->store.loop);

	if (now_ms < listing->answered_ms + TIME_MS) {
		deadline_clear(&listing->last);
		deadline_set(&listing->last, listing->answered_ms + TIME_MS, now_ms);
		return;
	}
	give_up(listing);
}

static bool run(struct listing *listing, const struct conf *conf)
{
	struct lock_store *store = &listing->store;
	uint64_t now_ms;

	if (!lock_store_open(store, "sluice locks", conf, SILENCE_MS))
		return false;
	store->changed = on_store_changed;
	deadline_init(&listing->retry, store->loop.base, on_retry);
	deadline_init(&listing->last, store->loop.base, on_last);
	now_ms = loop_now_ms(&store->loop);
	deadline_set(&listing->last, now_ms + TIME_MS, now_ms);
	while (!is_done(listing) && lock_store_turn(store))
		;
	deadline_end(&listing->retry);
	deadline_end(&listing->last);
	lock_store_close(store);
	free_looks(listing);
	return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const json_t *const *rows[] = {a, b};
	const char *names[2];

	for (int i = 0; i < 2; i++)
		names[i] = json_string_value(json_object_get(*rows[i], "name"));
	return strcmp(names[0], names[1]);
}

static void sort_rows(json_t *rows)
{
	size_t count = json_array_size(rows);
	json_t **items = calloc(count + 1, sizeof(json_t *));

	for (size_t i = 0; items && i < count; i++)
		items[i] = json_incref(json_array_get(rows, i));
	if (items)
		qsort(items, count, sizeof(json_t *), by_name);
	for (size_t i = 0; items && i < count; i++)
		json_array_set_new(rows, i, items[i]);
	free(items);
}

static void print_rows(const struct listing *listing, bool json)
{
	static const struct table_column columns[] = {{"NAME", "name", TABLE_TEXT},
		{"STATE", "state", TABLE_TEXT}, {"LEFT", "left_ms", TABLE_MS},
		{"FENCE", "fence", TABLE_NUMBER}, {"SESSION", "session", TABLE_TEXT}};
	json_t *shown = listing->name ? json_array_get(listing->rows, 0) : listing->rows;

	if (json) {
		json_t *answer = listing->name ? json_incref(shown)
					       : json_pack("{s:O}", "locks", listing->rows);
		json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
		json_decref(answer);
	} else if (listing->name) {
		table_print_members(stdout, shown);
	} else {
		table_print(stdout, listing->rows, columns, COUNT(columns));
	}
}

static bool is_active(const json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));

	return state && strcmp(state, "active") == 0;
}

static int answer(struct listing *listing, bool json)
{
	if (listing->store.is_refused)
		return LOCK_EXIT_UNREACHED;
	if (listing->name && !listing->is_shown && json_array_size(listing->rows) == 0) {
		fprintf(stderr, "sluice locks: no session has %s\n", listing->name);
		return LOCK_EXIT_REFUSED;
	}
	sort_rows(listing->rows);
	print_rows(listing, json);
	return listing->is_shown && !is_active(json_array_get(listing->rows, 0)) ? LOCK_EXIT_NOT_HAD
										 : 0;
}

static int list(const char *path, const char *name, bool is_shown, bool json)
{
	struct listing listing = {
		.name = name, .is_shown = is_shown, .names = json_object(), .rows = json_array()};
	const struct conf *conf = cli_load(path);
	int status = LOCK_EXIT_REFUSED;

	if (conf && listing.names && listing.rows && run(&listing, conf))
		status = answer(&listing, json);
	for (unsigned i = 0; listing.pages && i < listing.part_count; i++)
		free(listing.pages[i].command);
	free(listing.pages);
	json_decref(listing.names);
	json_decref(listing.rows);
	if (conf)
		conf_release(conf);
	return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* [show | end NAME]. Returns 0, or an exit status. */
static int take_words(char **words, int count, const char **name, bool *is_shown)
{
	if (count == 0)
		return 0;
	*is_shown = strcmp(words[0], "show") == 0;
	if (!*is_shown && strcmp(words[0], "end") != 0) {
		fprintf(stderr,
			"sluice locks: unknown command \"%s\"; expected show NAME or end NAME\n",
			words[0]);
		return LOCK_EXIT_USAGE;
	}
	if (count != 2) {
		fprintf(stderr, "sluice locks %s: expected NAME\n", words[0]);
		return LOCK_EXIT_USAGE;
	}
	if (!lock_name_is_valid(words[1])) {
		fprintf(stderr,
			"sluice locks %s: invalid name \"%s\"; expected 1 to 64 of A-Z a-z 0-9 . "
			"_ : "
			"-\n",
			words[0], words[1]);
		return LOCK_EXIT_USAGE;
	}
	*name = words[1];
	return 0;
}

int cli_locks(int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	const char *path = CLI_DEFAULT_FILE, *name = NULL;
	bool json = false, is_shown = false;
	int option, status = 0;

	optind = 1;
	while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			path = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			usage_print_command(stdout, cli_locks_usage, "locks");
			return 0;
		default:
			usage_refer("locks");
			return LOCK_EXIT_USAGE;
		}
	}
	status = take_words(argv + optind, argc - optind, &name, &is_shown);
	if (status)
		usage_refer("locks");
	return status ? status : list(path, name, is_shown, json);
}
