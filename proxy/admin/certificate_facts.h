/* The certificates of listeners in the status and the metrics. */
#ifndef ADMIN_CERTIFICATE_FACTS_H
#define ADMIN_CERTIFICATE_FACTS_H

#include <jansson.h>
#include <stdio.h>

#include "stats/exposition.h"

struct site;

/* A list, the caller's; NULL without memory. */
json_t *certificate_facts_json(const struct site *site);

/* Nothing where no listener has one. */
void certificate_facts_put(FILE *out, enum exposition_format format, const struct site *site);

#endif
