/*
 * Metrics as text for scrapers: the Prometheus text format 0.0.4 and OpenMetrics 1.0.
 *
 *   exposition_begin --> exposition_counters(stats), exposition_gauge(...)... --> exposition_end
 */
#ifndef STATS_EXPOSITION_H
#define STATS_EXPOSITION_H

#include <stdbool.h>
#include <stdio.h>

#include "stats/stats.h"

enum exposition_format { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS };

/* The media type of a format, for Content-Type. */
const char *exposition_media_type(enum exposition_format format);

/* All counters and histograms of the table, of every row; labelled counters that are zero are left
 * out. */
void exposition_counters(FILE *out, enum exposition_format format, const struct stats *stats);

/* The head of a gauge or counter that is not in the table; then one exposition_sample each. A
 * counter's name ends with _total. */
void exposition_family(
	FILE *out, enum exposition_format format, const char *name, bool counter, const char *help);

/* One sample. `labels` are pairs of name and value, ended by NULL; values are escaped. */
void exposition_sample(FILE *out, const char *name, const char *const *labels, double value);

/* The end of the text. */
void exposition_end(FILE *out, enum exposition_format format);

#endif
