/*
 * How many processors the process may use: those of its affinity mask, and no more than the
 * bandwidth of its control group (cgroups(7), versions 1 and 2) and of all that this one is in
 * allows. A part of a processor counts as a whole one.
 */
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

/* At least 1. `root` is "" but for tests, which put files in place of /proc and /sys there; NULL:
 * control groups are not looked at. */
unsigned processors_usable(const char *root);

#endif
