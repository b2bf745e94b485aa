#include "stats/exposition.h"

#include <inttypes.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

/* Slots of the widest row. */
#define ROW_MAX (STATS_ROUTE_SLOTS)
_Static_assert(ROW_MAX >= (int)STATS_NODE_SLOTS && ROW_MAX >= (int)STATS_LIMIT_SLOTS &&
		       ROW_MAX >= (int)STATS_PLAN_SLOTS && ROW_MAX >= (int)STATS_UPSTREAM_SLOTS,
	"a row fits");

const char *exposition_media_type(enum exposition_format format)
{
	return format == EXPOSITION_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* Backslash, quote and line feed are escaped in label values. */
static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || *text == '"')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

void exposition_family(
	FILE *out, enum exposition_format format, const char *name, bool counter, const char *help)
{
	int len = (int)strlen(name);

	/* OpenMetrics names the family of a counter without its suffix. */
	if (counter && format == EXPOSITION_OPENMETRICS)
		len -= (int)strlen("_total");
	fprintf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, name, help, len, name,
		counter ? "counter" : "gauge");
}

void exposition_sample(FILE *out, const char *name, const char *const *labels, double value)
{
	fputs(name, out);
	for (size_t i = 0; labels && labels[i]; i += 2) {
		fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i]);
		put_escaped(out, labels[i + 1]);
		fputc('"', out);
	}
	fprintf(out, "%s %.17g\n", labels && labels[0] ? "}" : "", value);
}

/* `{route="api",status="2xx"`, without its end; true if anything was written. */
static bool put_labels(FILE *out, const struct stats_metric *metric, const char *row, unsigned at)
{
	const char *scope = stats_scope_labels[metric->scope];
	unsigned rest = stats_metric_slots(metric);
	bool any = scope != NULL;

	if (scope) {
		fprintf(out, "{%s=\"", scope);
		put_escaped(out, row);
		fputc('"', out);
	}
	for (unsigned i = 0; i < STATS_LABELS && metric->labels[i].name; i++) {
		const struct stats_label *label = &metric->labels[i];
		rest /= label->count;
		fprintf(out, "%s%s=\"%s\"", any ? "," : "{", label->name,
			label->values[at / rest % label->count]);
		any = true;
	}
	return any;
}

static void put_counter(
	FILE *out, const struct stats_metric *metric, const char *row, const uint64_t *slots)
{
	unsigned count = stats_metric_slots(metric);

	for (unsigned i = 0; i < count; i++) {
		if (slots[i] == 0 && count > 1)
			continue;
		fputs(metric->name, out);
		if (put_labels(out, metric, row, i))
			fputc('}', out);
		fprintf(out, " %" PRIu64 "\n", slots[i]);
	}
}

static void put_histogram(
	FILE *out, const struct stats_metric *metric, const char *row, const uint64_t *slots)
{
	uint64_t below = 0, sum_ns = slots[STATS_BOUNDS + 1];

	for (unsigned i = 0; i <= STATS_BOUNDS; i++) {
		below += slots[i];
		fprintf(out, "%s_bucket", metric->name);
		fputs(put_labels(out, metric, row, 0) ? "," : "{", out);
		fprintf(out, "le=\"%s\"} %" PRIu64 "\n",
			i < STATS_BOUNDS ? stats_bound_texts[i] : "+Inf", below);
	}
	fprintf(out, "%s_sum", metric->name);
	if (put_labels(out, metric, row, 0))
		fputc('}', out);
	fprintf(out, " %" PRIu64 ".%09" PRIu64 "\n%s_count", sum_ns / NS_PER_S, sum_ns % NS_PER_S,
		metric->name);
	if (put_labels(out, metric, row, 0))
		fputc('}', out);
	fprintf(out, " %" PRIu64 "\n", below);
}

static bool is_unused(const struct stats_metric *metric, const uint64_t *slots)
{
	for (unsigned i = 0; i < stats_metric_slots(metric); i++) {
		if (slots[metric->slot + i] != 0)
			return false;
	}
	return true;
}

static void put_metric(FILE *out, enum exposition_format format, const struct stats *stats,
	const struct stats_metric *metric)
{
	uint64_t slots[ROW_MAX];
	unsigned rows = metric->scope == STATS_NODE ? 1 : stats_row_count(stats, metric->scope);

	if (metric->type == STATS_COUNTER)
		exposition_family(out, format, metric->name, true, metric->help);
	else
		fprintf(out, "# HELP %s %s\n# TYPE %s histogram\n", metric->name, metric->help,
			metric->name);
	for (unsigned row = 0; row < rows; row++) {
		const char *name = stats_row_name(stats, metric->scope, row);
		stats_sum(stats, metric->scope, row, slots);
		if (row == 0 && metric->scope != STATS_NODE && is_unused(metric, slots))
			continue; /* nothing fell to the row of what has no name */
		if (metric->type == STATS_COUNTER)
			put_counter(out, metric, name, slots + metric->slot);
		else
			put_histogram(out, metric, name, slots + metric->slot);
	}
}

void exposition_counters(FILE *out, enum exposition_format format, const struct stats *stats)
{
	for (size_t i = 0; i < stats_metric_count; i++)
		put_metric(out, format, stats, &stats_metrics[i]);
}

void exposition_end(FILE *out, enum exposition_format format)
{
	if (format == EXPOSITION_OPENMETRICS)
		fputs("# EOF\n", out);
}
