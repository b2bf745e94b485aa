/* See top.h. */
#include "cli/top.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/table.h"

#define INTERVAL_MS   2000
#define LINES_DEFAULT 24
#define LINES_OTHER   8 /* all but limits and callers */
#define LIMITS_MAX    5
#define BAR_CELLS     5

/* What the screen shows, and shows the change of. */
struct view {
	json_t *status, *limits, *callers;
	uint64_t at_ms;
};

static void view_clear(struct view *view)
{
	json_decref(view->status);
	json_decref(view->limits);
	json_decref(view->callers);
	*view = (struct view){0};
}

/* An exit status. */
static int fetch(const struct call *call, struct view *view)
{
	const struct {
		const char *path;
		json_t **answer;
	} questions[] = {{"/api/v1/status", &view->status}, {"/api/v1/limits", &view->limits},
		{call->sort_refused ? "/api/v1/callers?count=100&sort=refused"
				    : "/api/v1/callers?count=100",
			&view->callers}};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		enum remote_result result = remote_call(
			&call->remote, "GET", questions[i].path, NULL, questions[i].answer);
		if (result != REMOTE_OK)
			return result == REMOTE_REFUSED ? 1 : 3;
	}
	view->at_ms = clock_monotonic_ms();
	return 0;
}

static json_int_t number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
	const char *found = json_string_value(json_object_get(object, name));

	return found ? found : "-";
}

/* 950, 12.3k, 4.5M: at most five characters. */
static void format_count(double count, char out[static 16])
{
	if (count < 9999.5)
		snprintf(out, 16, "%.0f", count);
	else if (count < 999950)
		snprintf(out, 16, "%.1fk", count / 1e3);
	else if (count < 999950000)
		snprintf(out, 16, "%.1fM", count / 1e6);
	else
		snprintf(out, 16, "%.1fG", count / 1e9);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_header(const json_t *status)
{
	const json_t *queue = json_object_get(status, "queue");
	char uptime[TABLE_MS_BYTES];

	table_format_ms((unsigned long long)number(status, "uptime_ms"), uptime);
	printf("sluice %s, up %s, %" JSON_INTEGER_FORMAT " workers%s\n", text(status, "version"),
		uptime, number(status, "workers"),
		json_is_true(json_object_get(status, "draining")) ? ", draining" : "");
	printf("%" JSON_INTEGER_FORMAT " connections, %" JSON_INTEGER_FORMAT
	       " requests in flight, %" JSON_INTEGER_FORMAT " queued, %" JSON_INTEGER_FORMAT
	       " sessions\n\n",
		number(status, "client_connections"), number(queue, "in_flight"),
		number(queue, "queued"), number(queue, "sessions"));
}

static const json_t *find_limit(const json_t *limits, const char *name)
{
	const json_t *limit;
	size_t index;

	json_array_foreach(json_object_get(limits, "limits"), index, limit)
	{
		if (strcmp(text(limit, "name"), name) == 0)
			return limit;
	}
	return NULL;
}

/* Verdicts a second since the view before. */
static double rate_of(const struct view *view, const struct view *before, const json_t *limit,
	const char *verdict)
{
	const json_t *then = find_limit(before->limits, text(limit, "name"));
	json_int_t count = number(json_object_get(limit, "verdicts"), verdict) -
			   number(json_object_get(then, "verdicts"), verdict);

	if (!then || view->at_ms <= before->at_ms || count < 0)
		return 0;
	return (double)count * 1000 / (double)(view->at_ms - before->at_ms);
}

static void print_limits(const struct view *view, const struct view *before)
{
	const json_t *limit;
	char admitted[16], refused[16], shadowed[16], callers[16];
	size_t index;

	printf("%-28s %10s %10s %10s %10s\n", "LIMIT", "ADMITTED/S", "REFUSED/S", "SHADOW/S",
		"CALLERS");
	json_array_foreach(json_object_get(view->limits, "limits"), index, limit)
	{
		if (index == LIMITS_MAX) {
			printf("... %zu more: sluice limits\n",
				json_array_size(json_object_get(view->limits, "limits")) - index);
			break;
		}
		format_count(rate_of(view, before, limit, "admitted"), admitted);
		format_count(rate_of(view, before, limit, "refused"), refused);
		format_count(rate_of(view, before, limit, "shadow_refused"), shadowed);
		format_count((double)number(limit, "callers"), callers);
		printf("%-28.28s %10s %10s %10s %10s\n", text(limit, "name"), admitted, refused,
			shadowed, callers);
	}
}

/* `###..`: how much of the quota is used. */
static void format_bar(const json_t *caller, char bar[static BAR_CELLS + 1])
{
	json_int_t quota = number(caller, "quota"), used = number(caller, "used");
	json_int_t cells = quota > 0 ? (used * BAR_CELLS + quota - 1) / quota : 0;

	for (json_int_t i = 0; i < BAR_CELLS; i++)
		bar[i] = i < cells ? '#' : '.';
	bar[BAR_CELLS] = '\0';
}

static void print_callers(const json_t *callers, size_t lines)
{
	const json_t *caller;
	char span[TABLE_MS_BYTES], bar[BAR_CELLS + 1], admitted[16], refused[16], shadowed[16];
	size_t index;

	table_format_ms((unsigned long long)number(callers, "span_ms"), span);
	printf("\nCallers most %s in the last %s\n", text(callers, "sort"), span);
	printf("%-16s %-15s %-13s %7s %7s %7s %s\n", "CALLER", "ADDRESS", "LIMIT", "ADMIT",
		"REFUSE", "SHADOW", "USED");
	json_array_foreach(json_object_get(callers, "callers"), index, caller)
	{
		if (index == lines)
			break;
		format_bar(caller, bar);
		format_count((double)number(caller, "admitted"), admitted);
		format_count((double)number(caller, "refused"), refused);
		format_count((double)number(caller, "shadow_refused"), shadowed);
		printf("%-16.16s %-15.15s %-13.13s %7s %7s %7s %s%s\n", text(caller, "caller"),
			text(caller, "address"), text(caller, "limit"), admitted, refused, shadowed,
			bar, json_is_true(json_object_get(caller, "banned")) ? " ban" : "");
	}
	if (index == 0)
		puts("nobody");
}

/* ---- the screen ------------------------------------------------------------------------------ */

static size_t screen_lines(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
		size.ws_row > LINES_OTHER + LIMITS_MAX + 1)
		return size.ws_row;
	return LINES_DEFAULT;
}

static void draw(const struct view *view, const struct view *before, bool is_screen)
{
	size_t limits = json_array_size(json_object_get(view->limits, "limits"));
	size_t shown = limits > LIMITS_MAX ? LIMITS_MAX + 1 : limits;

	if (is_screen)
		fputs("\033[H\033[J", stdout);
	print_header(view->status);
	print_limits(view, before);
	print_callers(json_object_get(view->callers, "callers") ? view->callers : NULL,
		screen_lines() - LINES_OTHER - shown);
	fflush(stdout);
}

/* True when `q` was pressed. */
static bool wait_for_key(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char key = 0;

	return poll(&input, 1, INTERVAL_MS) > 0 &&
	       (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q');
}

/* Rates need two views. */
static int run_once(const struct call *call)
{
	const struct timespec second = {.tv_sec = 1};
	struct view before = {0}, view = {0};
	int status = fetch(call, &before);

	if (status == 0) {
		nanosleep(&second, NULL);
		status = fetch(call, &view);
	}
	if (status == 0)
		draw(&view, &before, false);
	view_clear(&before);
	view_clear(&view);
	return status;
}

static int run_screen(const struct call *call)
{
	struct view before = {0}, view = {0};
	int status;

	do {
		status = fetch(call, &view);
		if (status != 0)
			break;
		draw(&view, &before, true);
		view_clear(&before);
		before = view;
		view = (struct view){0};
	} while (!wait_for_key());
	view_clear(&before);
	view_clear(&view);
	return status;
}

/* The answers as they are, which count since the start: a program makes its own rates. */
static int print_json(const struct call *call)
{
	struct view view = {0};
	int status = fetch(call, &view);

	if (status == 0) {
		json_t *all = json_pack("{s:O, s:O, s:O}", "status", view.status, "limits",
			json_object_get(view.limits, "limits"), "callers", view.callers);
		json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
		json_decref(all);
	}
	view_clear(&view);
	return status;
}

/* What the terminal gets back, also where a signal ends the command. */
static struct termios usual;

/* The signal's usual effect follows. Only calls that POSIX allows in a handler. */
static void on_end(int number)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	raise(number);
}

/* Keys are read at once and not shown, until the command ends. */
static void set_single(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	const struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
	struct termios single = usual;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	single.c_cc[VSUSP] = _POSIX_VDISABLE;
	tcsetattr(STDIN_FILENO, TCSANOW, &single);
}

int cli_top(struct call *call)
{

	if (call->json)
		return print_json(call);
	bool is_screen = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) &&
			 tcgetattr(STDIN_FILENO, &usual) == 0;

	if (!is_screen)
		return run_once(call);
	set_single();
	int status = run_screen(call);
	tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	return status;
}
