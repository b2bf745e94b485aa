/* The simulation of a fleet: see simulation.h. `simulate_fleet --help` lists what it takes. */
#include "tests/simulation/simulation.h"

#include <assert.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "fleet/fleet_part.h"

/* A request that asks the store. */
struct asking {
	struct question question;
	struct account account;
	struct asking *next; /* while spare */
	uint32_t caller;
	uint64_t asked_us, number;
	bool waits;
};

static struct asking *spare; /* all of one simulation */
static uint64_t next_number;

/* ---- time ------------------------------------------------------------------------------------ */

static bool is_before(const struct step *a, const struct step *b)
{
	return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

void simulation_at(
	struct simulation *simulation, uint64_t at_us, run_event *run, void *arg, uint64_t number)
{
	struct heap *heap = &simulation->heap;
	struct step step = {at_us, heap->order++, run, arg, number};
	size_t at = heap->count++;

	if (heap->count > heap->size) {
		heap->size = heap->size > 0 ? 2 * heap->size : 4096;
		heap->all = realloc(heap->all, heap->size * sizeof(*heap->all));
		assert(heap->all);
	}
	for (; at > 0 && is_before(&step, &heap->all[(at - 1) / 2]); at = (at - 1) / 2)
		heap->all[at] = heap->all[(at - 1) / 2];
	heap->all[at] = step;
}

static struct step take_first(struct heap *heap)
{
	struct step first = heap->all[0], last = heap->all[--heap->count];
	size_t at = 0;

	for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
		if (child + 1 < heap->count && is_before(&heap->all[child + 1], &heap->all[child]))
			child++;
		if (!is_before(&heap->all[child], &last))
			break;
		heap->all[at] = heap->all[child];
		at = child;
	}
	heap->all[at] = last;
	return first;
}

struct bucket *simulation_bucket(struct simulation *simulation)
{
	size_t at = simulation->now_us / BUCKET_US;

	return &simulation->buckets[at < simulation->bucket_count ? at
								  : simulation->bucket_count - 1];
}

bool simulation_store_is_away(const struct simulation *simulation)
{
	double now_s = (double)simulation->now_us / 1e6;
	const struct settings *settings = &simulation->settings;

	return now_s >= settings->away_at_s && now_s < settings->away_at_s + settings->away_s;
}

uint64_t simulation_draw_way(struct simulation *simulation)
{
	size_t at = random_below(&simulation->random, simulation->latency_count);

	return (uint64_t)(simulation->latencies_us[at] / 2 + draw_unit(&simulation->random));
}

/* ---- requests -------------------------------------------------------------------------------- */

static void note_wait(struct simulation *simulation, uint64_t wait_us)
{
	int at = wait_us > 0 ? 1 + (int)(log((double)wait_us) / log(1.15)) : 0;

	simulation->waits[at < WAITS ? at : WAITS - 1]++;
}

static void conclude(
	struct simulation *simulation, uint32_t caller, bool admitted, uint64_t wait_us)
{
	struct bucket *bucket = simulation_bucket(simulation);

	note_wait(simulation, wait_us);
	if (admitted) {
		callers_admit(&simulation->callers, caller, simulation->now_us);
		bucket->admitted++;
	} else {
		bucket->refused++;
	}
}

static void put_asking(struct asking *asking)
{
	asking->number = 0;
	asking->next = spare;
	spare = asking;
}

static void on_went_on(struct lease_node *lease, struct question *question, bool answered)
{
	struct asking *asking = CONTAINER_OF(question, struct asking, question);
	struct simulated_node *node = CONTAINER_OF(lease, struct simulated_node, lease);
	struct account_charge *charge = &asking->account.charges[0];
	bool admitted = answered && charge->said == WAY_TAKEN;

	if (asking->waits && answered)
		conclude(node->simulation, asking->caller, admitted,
			node->simulation->now_us - asking->asked_us);
	else if (asking->waits)
		simulation_bucket(node->simulation)->unavailable++;
	else if (admitted)
		lease_way.give(&asking->account, charge, 1);
	put_asking(asking);
}

static void on_timeout(struct simulation *simulation, void *arg, uint64_t number)
{
	struct asking *asking = arg;

	if (asking->number != number || !asking->waits)
		return;
	asking->waits = false;
	simulation_bucket(simulation)->unavailable++;
}

static struct asking *get_asking(void)
{
	struct asking *asking = spare;

	if (asking)
		spare = asking->next;
	else
		asking = calloc(1, sizeof(*asking));
	assert(asking);
	asking->question.account = &asking->account;
	return asking;
}

static struct throttle_key key_of(uint32_t caller)
{
	struct random random = {caller};

	return (struct throttle_key){random_next(&random), random_next(&random)};
}

static void fill_charge(
	const struct simulation *simulation, uint32_t caller, struct account_charge *charge)
{
	const struct conf_limit limit = {.amount = simulation->settings.quota,
		.per_ns = simulation->settings.window_us * 1000};

	*charge = (struct account_charge){.caller = key_of(caller),
		.rule = rule_of(&limit),
		.limit = "it",
		.cost = 1,
		.local = -1,
		.way = &lease_way,
		.said = WAY_ASK};
}

static void ask(struct simulation *simulation, struct simulated_node *node, uint32_t caller)
{
	struct asking *asking = get_asking();
	struct account *account = &asking->account;

	account->worker = &node->lease.fleet;
	account->now_ns = node->lease.now_ns;
	account->count = 1;
	account->refused = false;
	fill_charge(simulation, caller, &account->charges[0]);
	enum way_verdict said = lease_way.take(account, &account->charges[0]);
	if (said != WAY_ASK) {
		conclude(simulation, caller, said == WAY_TAKEN, 0);
		put_asking(asking);
		return;
	}
	if (node->lease.is_away || node->lease.is_slow) {
		simulation_bucket(simulation)->unavailable++;
		put_asking(asking);
		return;
	}
	asking->caller = caller;
	asking->asked_us = simulation->now_us;
	asking->number = ++next_number;
	asking->waits = true;
	lease_ask(fleet_filling(&node->lease.fleet, FLEET_LEASE, account->charges[0].caller, 1),
		&asking->question, account);
	simulation_at(simulation, simulation->now_us + simulation->settings.timeout_us, on_timeout,
		asking, asking->number);
}

static struct simulated_node *node_for(struct simulation *simulation, uint32_t caller)
{
	const struct settings *settings = &simulation->settings;
	uint64_t drawn = random_next(&simulation->random);

	if (settings->spread == 0)
		return simulation->nodes[drawn % settings->nodes];
	struct random random = {(uint64_t)caller << 20 | drawn % settings->spread};
	return simulation->nodes[random_next(&random) % settings->nodes];
}

static uint64_t time_to_next(struct simulation *simulation)
{
	const struct settings *settings = &simulation->settings;
	double rate = settings->rate, period_s = settings->burst_s + settings->pause_s;
	double now_s = (double)simulation->now_us / 1e6, next_s;

	if (settings->pause_s > 0)
		rate *= period_s / settings->burst_s;
	next_s = now_s - log(1 - draw_unit(&simulation->random)) / rate;
	if (settings->pause_s > 0 && fmod(next_s, period_s) > settings->burst_s)
		next_s = (floor(next_s / period_s) + 1) * period_s;
	return (uint64_t)(next_s * 1e6);
}

static void on_request(struct simulation *simulation, void *arg, uint64_t number)
{
	uint32_t caller = callers_draw(&simulation->callers, &simulation->random);
	struct simulated_node *node = node_for(simulation, caller);

	(void)arg;
	(void)number;
	simulation->asked[caller]++;
	simulation_bucket(simulation)->asked++;
	callers_ask(&simulation->callers, caller, simulation->now_us);
	simulated_node_set_time(node);
	simulated_node_end_turn(node); /* time has passed since it looked at its store */
	ask(simulation, node, caller);
	simulated_node_end_turn(node);
	simulation_at(simulation, time_to_next(simulation), on_request, NULL, 0);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void on_death(struct simulation *simulation, void *stats, uint64_t number)
{
	struct simulated_node **node =
		&simulation->nodes[random_below(&simulation->random, simulation->settings.nodes)];

	(void)number;
	simulated_node_kill(*node);
	*node = simulated_node_new(simulation, stats, on_went_on);
	simulation_at(simulation,
		simulation->now_us + (uint64_t)(simulation->settings.deaths_s * 1e6), on_death,
		stats, 0);
}

/* When half, 99 % and all of the nodes are connected again. */
static void note_connected(struct simulation *simulation)
{
	static const double parts[] = {0.5, 0.99, 1};
	uint64_t back_us =
		(uint64_t)((simulation->settings.away_at_s + simulation->settings.away_s) * 1e6);

	for (int i = 0; i < 3 && simulation->now_us > back_us; i++) {
		if (simulation->connected_us[i] == 0 &&
			(double)simulation->connected >= parts[i] * simulation->settings.nodes)
			simulation->connected_us[i] = simulation->now_us - back_us;
	}
}

static void run(struct simulation *simulation, struct stats_block *stats)
{
	uint64_t end_us = (uint64_t)(simulation->settings.seconds * 1e6);

	for (uint32_t i = 0; i < simulation->settings.nodes; i++)
		simulation->nodes[i] = simulated_node_new(simulation, stats, on_went_on);
	if (simulation->settings.deaths_s > 0)
		simulation_at(simulation, 1000000, on_death, stats, 0);
	simulation_at(simulation, 500000, on_request, NULL, 0);
	while (simulation->heap.count > 0 && simulation->heap.all[0].at_us < end_us) {
		struct step step = take_first(&simulation->heap);
		simulation->now_us = step.at_us;
		step.run(simulation, step.arg, step.number);
		if (simulation->settings.away_s > 0)
			note_connected(simulation);
	}
}

/* ---- what it found --------------------------------------------------------------------------- */

/* The time that this part of the verdicts took at most, in us. */
static double wait_at(const struct simulation *simulation, double part)
{
	uint64_t all = 0, sum = 0;
	int at = 0;

	for (int i = 0; i < WAITS; i++)
		all += simulation->waits[i];
	while (at < WAITS - 1 && (double)(sum += simulation->waits[at]) < part * (double)all)
		at++;
	return at == 0 ? 0 : pow(1.15, at);
}

static void print_buckets(const struct simulation *simulation)
{
	printf("# second asked admitted refused unavailable calls\n");
	for (size_t i = 0; i < simulation->bucket_count; i++) {
		const struct bucket *b = &simulation->buckets[i];
		printf("%.1f %u %u %u %u %u\n", (double)i * BUCKET_US / 1e6, b->asked, b->admitted,
			b->refused, b->unavailable, b->calls);
	}
}

static void print_result(const struct simulation *simulation)
{
	struct bucket all = {0};

	for (size_t i = 0; i < simulation->bucket_count; i++) {
		const struct bucket *b = &simulation->buckets[i];
		all.asked += b->asked;
		all.admitted += b->admitted;
		all.refused += b->refused;
		all.unavailable += b->unavailable;
		all.calls += b->calls;
	}
	printf("asked %u\nadmitted %u\nrefused %u\nunavailable %u\ncalls %u\n", all.asked,
		all.admitted, all.refused, all.unavailable, all.calls);
	printf("calls_a_request %.5f\n", (double)all.calls / all.asked);
	printf("unused %.5f\n", callers_unused(&simulation->callers, simulation->asked));
	printf("local %.5f\n", (double)simulation->waits[0] / (all.admitted + all.refused));
	printf("wait_p50_us %.0f\nwait_p99_us %.0f\nwait_p999_us %.0f\n", wait_at(simulation, 0.5),
		wait_at(simulation, 0.99), wait_at(simulation, 0.999));
	printf("store_busy %.4f\n",
		(double)simulation->store_busy_us / simulation->settings.seconds / 1e6);
	printf("half_back_s %.3f\nmost_back_s %.3f\nall_back_s %.3f\n",
		(double)simulation->connected_us[0] / 1e6,
		(double)simulation->connected_us[1] / 1e6,
		(double)simulation->connected_us[2] / 1e6);
	if (simulation->callers.closest_us != UINT64_MAX)
		printf("closest %.5f\n", (double)simulation->callers.closest_us /
						 (double)simulation->settings.window_us);
	printf("violations %llu\n", (unsigned long long)simulation->callers.violations);
}

/* ---- what it takes --------------------------------------------------------------------------- */

enum {
	NODES,
	CALLERS,
	SPREAD,
	EXPONENT,
	RATE,
	SECONDS,
	BURST,
	PAUSE,
	QUOTA,
	WINDOW,
	AWAY_AT,
	AWAY,
	DEATHS,
	TIMEOUT,
	SERVICE,
	SEED,
	NUMBERS
};

static const char *const numbers[NUMBERS] = {"nodes", "callers", "spread", "exponent", "rate",
	"seconds", "burst", "pause", "quota", "window", "away-at", "away", "deaths", "timeout-ms",
	"service-us", "seed"};

static struct settings settings_of(const double *of)
{
	return (struct settings){.nodes = (uint32_t)of[NODES],
		.callers = (uint32_t)of[CALLERS],
		.spread = (uint32_t)of[SPREAD],
		.exponent = of[EXPONENT],
		.rate = of[RATE],
		.seconds = of[SECONDS],
		.burst_s = of[BURST],
		.pause_s = of[PAUSE],
		.quota = (uint64_t)of[QUOTA],
		.window_us = (uint64_t)(of[WINDOW] * 1e6),
		.away_at_s = of[AWAY_AT],
		.away_s = of[AWAY],
		.deaths_s = of[DEATHS],
		.timeout_us = (uint64_t)(of[TIMEOUT] * 1e3),
		.service_us = of[SERVICE],
		.seed = (uint64_t)of[SEED]};
}

/* Round trips in microseconds, one a line. */
static unsigned read_latencies(const char *path, double *latencies_us)
{
	FILE *file = fopen(path, "r");
	unsigned count = 0;
	char line[128];

	if (!file) {
		perror(path);
		exit(2);
	}
	while (count < LATENCIES_MOST && fgets(line, sizeof(line), file)) {
		if (line[0] != '#')
			latencies_us[count++] = strtod(line, NULL);
	}
	fclose(file);
	return count;
}

static void usage(void)
{
	fprintf(stderr,
		"simulate_fleet LEASE.LUA LATENCIES [--buckets] [--NAME NUMBER]...\nNAMEs:");
	for (int i = 0; i < NUMBERS; i++)
		fprintf(stderr, " %s", numbers[i]);
	fprintf(stderr, "\n");
	exit(2);
}

static struct settings read_settings(int argc, char **argv, bool *buckets)
{
	double of[NUMBERS] = {[NODES] = 10,
		[CALLERS] = 1000,
		[EXPONENT] = 1,
		[RATE] = 1000,
		[SECONDS] = 20,
		[QUOTA] = 100,
		[WINDOW] = 10,
		[TIMEOUT] = 20,
		[SERVICE] = 15,
		[SEED] = 1};
	struct option options[NUMBERS + 2] = {0};
	int found;

	for (int i = 0; i < NUMBERS; i++)
		options[i] = (struct option){numbers[i], required_argument, NULL, i};
	options[NUMBERS] = (struct option){"buckets", no_argument, NULL, NUMBERS};
	while ((found = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (found == NUMBERS)
			*buckets = true;
		else if (found >= 0 && found < NUMBERS)
			of[found] = strtod(optarg, NULL);
		else
			usage();
	}
	return settings_of(of);
}

int main(int argc, char **argv)
{
	static struct simulation simulation;
	bool buckets = false;

	simulation.settings = read_settings(argc, argv, &buckets);
	if (argc - optind != 2)
		usage();
	const struct settings *settings = &simulation.settings;
	simulation.random = (struct random){settings->seed};
	simulation.store = store_new(argv[optind]);
	simulation.latency_count = read_latencies(argv[optind + 1], simulation.latencies_us);
	simulation.nodes = calloc(settings->nodes, sizeof(*simulation.nodes));
	simulation.asked = calloc(settings->callers, sizeof(*simulation.asked));
	simulation.bucket_count = (size_t)(settings->seconds * 1e6 / BUCKET_US) + 1;
	simulation.buckets = calloc(simulation.bucket_count, sizeof(*simulation.buckets));
	callers_init(&simulation.callers, settings->callers, settings->exponent, settings->quota,
		settings->window_us, settings->timeout_us);
	simulation.stats = stats_new(1);
	run(&simulation, stats_block(simulation.stats, 0));
	print_result(&simulation);
	if (buckets)
		print_buckets(&simulation);
	callers_end(&simulation.callers);
	return simulation.callers.violations > 0;
}
