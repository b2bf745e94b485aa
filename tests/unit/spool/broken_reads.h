/* A disk that breaks: reads of files fail with this errno value, unless it is 0. It replaces the
 * C library's pread in the program that links it. */
#ifndef UNIT_SPOOL_BROKEN_READS_H
#define UNIT_SPOOL_BROKEN_READS_H

#include <errno.h>

extern int broken_reads;

#endif
