/*
 * The pid file. During an upgrade the old process's is PATH.oldbin, as with nginx, so that the new
 * one's can be PATH; if the new one fails it becomes PATH again.
 */
#ifndef DAEMON_PID_FILE_H
#define DAEMON_PID_FILE_H

#include <stdbool.h>

struct conf;
struct daemon;

/* Writes the file that `conf` names, if it does. False with a line in the log. */
bool pid_file_write(const struct conf *conf);

void pid_file_put_aside(struct daemon *daemon);
void pid_file_take_back(struct daemon *daemon);

/* Removes what is this process's. */
void pid_file_remove(struct daemon *daemon);

#endif
