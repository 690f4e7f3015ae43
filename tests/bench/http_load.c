/* Posts one request again and again over several connections, and says what it measured as one JSON object.
 *
 *     http_load PORT CONNECTIONS SECONDS REQUEST [compare]
 *
 * REQUEST: a file with the bytes of a whole HTTP request. A thread a connection sends it, reads the answer by
 * its Content-Length and begins anew; each answer other than "200" is an error, and with "compare" each whose
 * body is not the first one's, to the byte, is wrong. Its own CPU time is in the result: it runs on the cores
 * that it loads.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TIMES = 1 << 22, MOST_HEAD = 8192, MOST_BODY = 1 << 20 };

static const char *request;
static size_t request_size;
static int port;
static double until;
static int compare;
static char first_body[MOST_BODY];
static size_t first_size;
static float times[MOST_TIMES]; /* ms, of all threads */
static size_t count, errors, wrong;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int open_connection(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Compares a body with the first one. */
static void look(const char *body, size_t size) {
    pthread_mutex_lock(&lock);
    if (!first_size) memcpy(first_body, body, first_size = size);
    else if (size != first_size || memcmp(first_body, body, size)) wrong++;
    pthread_mutex_unlock(&lock);
}

/* Returns 0 for an answer of status 200 that has been read whole, -2 for another, -1 for none. */
static int ask(int fd, char *body) {
    static __thread char head[MOST_HEAD + 1];
    for (size_t sent = 0; sent < request_size;) {
        ssize_t n = send(fd, request + sent, request_size - sent, MSG_NOSIGNAL);
        if (n <= 0) return -1;
        sent += (size_t)n;
    }
    size_t have = 0;
    char *end = NULL;
    while (!end && have < MOST_HEAD) {
        ssize_t n = recv(fd, head + have, MOST_HEAD - have, 0);
        if (n <= 0) return -1;
        have += (size_t)n;
        head[have] = 0;
        end = memmem(head, have, "\r\n\r\n", 4);
    }
    char *length = end ? strcasestr(head, "\r\nContent-Length: ") : NULL;
    if (!length) return -1;
    size_t size = strtoull(length + 18, NULL, 10), got = have - (size_t)(end + 4 - head);
    if (size > MOST_BODY || got > size) return -1;
    memcpy(body, end + 4, got);
    while (got < size) {
        ssize_t n = recv(fd, body + got, size - got, 0);
        if (n <= 0) return -1;
        got += (size_t)n;
    }
    if (strncmp(head, "HTTP/1.1 200 ", 13)) return -2;
    if (compare) look(body, size);
    return 0;
}

static void *work(void *number) {
    (void)number;
    int fd = open_connection();
    char *body = malloc(MOST_BODY);
    while (seconds() < until) {
        double begin = seconds();
        int status = fd < 0 ? -1 : ask(fd, body);
        pthread_mutex_lock(&lock);
        if (status) errors++;
        else if (count < MOST_TIMES) times[count++] = (float)(1e3 * (seconds() - begin));
        pthread_mutex_unlock(&lock);
        if (status == -1) {
            if (fd >= 0) close(fd);
            usleep(20000);
            fd = open_connection();
        }
    }
    if (fd >= 0) close(fd);
    free(body);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    FILE *file = argc < 5 ? NULL : fopen(argv[4], "rb");
    if (!file) return fprintf(stderr, "http_load PORT CONNECTIONS SECONDS REQUEST [compare]\n"), 2;
    fseek(file, 0, SEEK_END);
    request_size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(request_size);
    if (!text || fread(text, 1, request_size, file) != request_size) return 2;
    request = text, port = atoi(argv[1]), compare = argc > 5;
    int connections = atoi(argv[2]);
    double begin = seconds();
    until = begin + atof(argv[3]);
    pthread_t *threads = calloc((size_t)connections, sizeof *threads);
    for (long i = 0; i < connections; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < connections; i++) pthread_join(threads[i], NULL);
    double took = seconds() - begin;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    qsort(times, count, sizeof *times, ascending);
    double p50 = count ? times[count / 2] : -1, p99 = count ? times[(size_t)(0.99 * (double)count)] : -1;
    printf("{\"answers\": %zu, \"errors\": %zu, \"wrong\": %zu, \"seconds\": %.3f, \"cpu_seconds\": %.3f, "
           "\"p50_ms\": %.3f, \"p99_ms\": %.3f, \"longest_ms\": %.3f}\n",
           count, errors, wrong, took, cpu, p50, p99, count ? (double)times[count - 1] : -1.0);
    return 0;
}
