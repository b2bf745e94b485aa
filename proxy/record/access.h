/*
 * An exchange's line in the access log (record/access_line.h): written when it is over, or, for
 * one that continues without its request, kept until then.
 */
#ifndef RECORD_ACCESS_H
#define RECORD_ACCESS_H

struct access_kept;
struct access_line;
struct exchange;
struct site;
struct worker;

/* When it is over. */
void exchange_log(const struct exchange *exchange);

/* The request's part of its line, including times, in memory of its own, which the caller frees. As
 * long as its site is held. NULL without memory. */
struct access_kept *access_keep(const struct exchange *exchange);

/* Writes that line, in which the caller has filled in what came of it: all but the texts, the
 * limit, the verdict and the times. */
void access_log_kept(struct worker *worker, const struct site *site, const struct access_kept *kept,
	struct access_line *line);

#endif
