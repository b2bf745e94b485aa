#!/usr/bin/env python3
"""How the rooms and units of the source refer to each other. TAP, with the figures as comments.

A unit is a .c file with the header of the same name; a room is its folder. Unit A refers to unit B
when A's code (without comments and strings) calls a function that B defines, or uses its name as a
value, however often and however many of them: that is one reference; a declaration is none. A
function is what begins in the first column and has a body; static ones of a .c file are its own
affair, those of a header are public. A name that no header that A includes (by others, too) declares is another thing's.

A pointer to a function is a member of a struct or a parameter. Its implementations are the functions
that some code assigns to it or passes for it. One that has a single implementation, in a room above,
hides a call that leads up; those that do so for a reason are counted, and may not become more.

A circle is a set of units (or of rooms) of which each reaches each. Within a room no order is
written down, so the units are put into the order with the fewest references against it that a
search finds; those are the references that go back up. Between rooms the order is that of the floors
in check-layers.sh, and no reference may go up.
"""
import collections
import os
import re
import sys

TOP = os.environ.get('top_srcdir', os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
FLOORS = [['throttle', 'base'], ['words', 'loop'], ['conf'], ['http', 'net'],
          ['gate', 'queue', 'stats', 'spool', 'store'], ['body', 'worker'], ['upstream'], ['site'],
          ['record'], ['listen', 'ownership', 'frames'], ['exchange'], ['tunnel', 'channels'],
          ['http1', 'http2', 'websocket', 'fleet', 'semaphore'], ['gateway'], ['daemon'], ['admin'], ['cli'],
          ['cli/lock'], ['main']]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Units of http that stand on base alone, and that conf uses: a room of their own here.
WORDS = ['lenient', 'message', 'method', 'out', 'path', 'path_readings']

# Structs of rooms above that headers name, in pointers only.
HIGHER_STRUCTS = {('upstream', 'exchange'): 'whose request a connection carries',
                  ('listen', 'downstream'): 'a client of a protocol',
                  ('exchange', 'gateway'): 'whose message it is',
                  ('exchange', 'grip_hold'): 'that holds its response'}
# Operations that rooms above implement, and why that is no call in disguise.
SEAMS = {
    'client_calls': 'a connection, a socket and a gateway are clients', 'body_source_calls': 'as above',
    'server_calls': 'each protocol has its own', 'server_many': 'a build may leave HTTP/2 out', 'protocol': 'a second protocol is to come',
    'stream_calls': 'of the owner of a stream',
    'authority_calls': 'a build may leave the fleet out', 'authority_reply': 'a build may leave the fleet out',
    'owner_store': 'a build may leave the fleet out',
    'switched_calls': 'a build may leave WebSockets out', 'passage_calls': 'a build may leave WebSockets out',
    'worker_part': 'each part has its own'}
# Other pointers with a single implementation, in a room above.
POINTERS_UP_MOST = 25
# Headers of other rooms that only those rooms include, in unit tests.
INSIDES_MOST = 24

# What only some rooms may name, and the units elsewhere that do so with a reason.
SOCKETS = r'\b(?:socket|connect|accept4?|recv|send|shutdown|poll|setsockopt|getsockopt|ioctl)\('
SOCKET_ROOMS = ['net', 'cli', 'cli/lock']
SOCKET_UNITS = {
    'semaphore/rabbit': 'waits for a broker',
    'base/log': 'waits for its writers and for standard output',
    'base/log_writer': 'waits for lines',
    'base/log_output': 'waits for standard output',
    'base/notify': "the service manager's datagrams",
    'admin/background': "libmicrohttpd's connections",
    'admin/serve': "libmicrohttpd's connections",
    'daemon/handover': 'looks at descriptors that another process passed',
}
EVENTS = r'\b(?:event_(?:new|assign|add|del|active|free)|ev(?:timer|signal)_(?:new|assign))\('
EVENT_ROOMS = ['loop', 'net']
EVENT_UNITS = {
    'cli/lock/lock_command': "the descriptor of the command's keeper",
    'admin/handle_events': 'a timer', 'admin/socket_calls': 'a timer',
    'daemon/certificate_watch': 'inotify and a timer',
    'daemon/failure_lines': 'a timer', 'daemon/growth': 'a timer',
    'daemon/manager': 'a timer', 'daemon/daemon': 'a timer', 'daemon/daemon': 'a timer', 'daemon/reload': 'a timer',
    'store/redis_events': "hiredis's sockets",
    'daemon/resolve': 'a timer', 'daemon/signals': 'their descriptor', 'daemon/signals': 'a timer',
    'daemon/upgrade': 'pipes to processes', 'daemon/usage': 'a timer',
}
STREAM_INSIDE = r'\bstream(?:\.|->)(?:end|transport)\b|(?:\.|->)carried\b'

# Fields of a struct, lines of a function.
FIELDS_MOST, LINES_MOST = 40, 60

# Percent of the references inside a room that may go back up, and how many may in a small room.
BACK_MOST, BACK_FEW = 10, 2
# Units of one circle inside a room.
CIRCLE_MOST = 5


def text_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def code_of(text):
    """Without comments, strings and characters; line breaks stay."""
    def blank(match):
        kept = '\n' * match.group().count('\n')
        return kept if match.group().startswith('/') else '""'
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text,
                  flags=re.S)


def room_of(folder, stem):
    if folder == 'http' and stem in WORDS:
        return 'words'
    return folder


class Unit:
    def __init__(self, room, name):
        self.room, self.name = room, name
        self.code, self.public, self.declared, self.includes = '', set(), set(), []
        self.functions, self.structs = [], []
        self.text, self.header = '', ''

    def add(self, path):
        text = text_of(path)
        self.includes += re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)
        code = code_of(text)
        self.text += code
        self.header += code if path.endswith('.h') else ''
        # A macro's body has no functions, but may name some.
        plain = re.sub(r'^#(?:[^\n]*\\\n)*[^\n]*', lambda m: '\n' * m.group().count('\n'), code,
                       flags=re.M)
        for match in re.finditer(r'^(?![ \t}#])([^;{}=]*?)\b(\w+)\(([^;{}]*)\)\s*\n\{\n(.*?)^\}',
                                 plain, re.M | re.S):
            static = re.search(r'\bstatic\b', match.group(1))
            lines = match.group(4).count('\n') + 2
            self.functions.append((match.group(2), lines))
            if match.group(2) != 'main' and (path.endswith('.h') or not static):
                self.public.add(match.group(2))
        for match in re.finditer(r'^struct (\w+) \{\n(.*?)^\}', plain, re.M | re.S):
            self.structs.append((match.group(1), count_fields(match.group(2))))
        if path.endswith('.h'):
            self.declared.update(re.findall(r'\b([a-z]\w+)\(', plain))
        # A declaration is no call.
        self.code += re.sub(r'^(?![ \t}#])[^;{}=#]*?\b\w+\([^;{}]*\)[^;{}()]*;',
                            lambda m: '\n' * m.group().count('\n'), code, flags=re.M)


def count_fields(body):
    """Names declared in a struct; those of a struct or union without a name of its own included."""
    count = 0
    for statement in re.sub(r'\b(?:struct|union)\s*\{|\}\s*', '', body).split(';'):
        statement = re.sub(r'\([^()]*\)\s*$', '', re.sub(r'\[[^\]]*\]', '', statement)).strip()
        if statement and not statement.startswith('_Static_assert'):
            count += statement.count(',') + 1 if '(' not in statement else 1
    return count


def read_units():
    units = {}
    places = [('throttle', os.path.join(TOP, 'throttle'))]
    proxy = os.path.join(TOP, 'proxy')
    places += [(os.path.relpath(folder, proxy), folder) for folder, _, names in sorted(os.walk(proxy))
               if folder != proxy and any(name.endswith('.h') for name in names)]
    for room, folder in places:
        for name in sorted(os.listdir(folder)):
            stem, ending = os.path.splitext(name)
            place = room_of(room, stem)
            if ending in ('.c', '.h'):
                units.setdefault((place, stem), Unit(place, stem)).add(os.path.join(folder, name))
    units['main', 'main'] = Unit('main', 'main')
    units['main', 'main'].add(os.path.join(proxy, 'main.c'))
    return units


def reach(unit, units):
    """The units whose headers it includes, by others too."""
    reached, left = set(), [unit]
    while left:
        for path in left.pop().includes:
            folder, _, name = path.rpartition('/')
            stem = os.path.splitext(name)[0]
            key = room_of(folder, stem), stem
            if key in units and key not in reached:
                reached.add(key)
                left.append(units[key])
    return reached


def find_references(units):
    """{unit: {unit: set of functions}}"""
    owners = {function: key for key, unit in units.items() for function in unit.public}
    references = {key: collections.defaultdict(set) for key in units}
    names = re.compile(r'(?<![.>\w])([a-z]\w+)\s*\(|[=,({&?:]\s*([a-z]\w+)\s*(?=[,;)}])')
    for key, unit in units.items():
        words = {first or second for first, second in names.findall(unit.code)}
        reached = reach(unit, units) | {key}
        for word in words & owners.keys():
            if owners[word] != key and any(word in units[other].declared for other in reached):
                references[key][owners[word]].add(word)
    return references


def find_circles(graph):
    """Strongly connected sets of two or more (Tarjan 1972)."""
    index, low, stack, on_stack, circles = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                circles.append(sorted(members))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return circles


def count_back(graph):
    """References against the best order found: begins with Eades, Lin and Smyth (1993), then moves
    one unit at a time to where it is best, until no move helps."""
    left = {node: set(graph[node]) & graph.keys() for node in graph}
    first, last = [], []
    while left:
        into = collections.Counter(other for node in left for other in left[node])
        sinks = [node for node in sorted(left) if not left[node]]
        sources = [node for node in sorted(left) if not into[node]]
        if sinks:
            node = sinks[0]
            last.insert(0, node)
        else:
            node = sources[0] if sources else max(
                sorted(left), key=lambda item: len(left[item]) - into[item])
            first.append(node)
        del left[node]
        for others in left.values():
            others.discard(node)
    order = first + last
    improved = True
    while improved:
        improved = False
        for node in sorted(graph):
            at = order.index(node)
            rest = order[:at] + order[at + 1:]
            # Of a place: those behind it that refer to the node go up to... the others before it
            # that the node refers to.
            cost = sum(1 for other in rest if node in graph[other])
            costs = [cost]
            for other in rest:
                cost += (other in graph[node]) - (node in graph[other])
                costs.append(cost)
            best = min(range(len(costs)), key=lambda place: (costs[place], abs(place - at)))
            if costs[best] < costs[at]:
                order = rest[:best] + [node] + rest[best:]
                improved = True
    place = {node: number for number, node in enumerate(order)}
    return [(node, other) for node in sorted(graph) for other in sorted(graph[node])
            if place.get(other, 0) < place[node]]


POINTER = re.compile(r'\(\*\s*(?:const\s+)?(\w+)\)\s*\(')
FUNCTION = re.compile(r'^(?![ \t}#])([^;{}=]*?\b(\w+)\(((?:[^;{}])*)\))\s*\n\{\n(.*?)^\}', re.M | re.S)


def split_list(text):
    """By commas that stand in no brackets."""
    depth, items = 0, ['']
    for char in text:
        depth += (char in '([{') - (char in ')]}')
        if char == ',' and depth == 0:
            items.append('')
        else:
            items[-1] += char
    return items


class Pointers:
    """The members and parameters that point to functions, and what implements them."""

    def __init__(self, units):
        self.places, self.bodies = collections.defaultdict(set), []
        self.homes, self.parameters = collections.defaultdict(set), {}
        for key, unit in units.items():
            self.read(key, re.sub(r'__attribute__\(\(\w+\)\)', '', unit.text))
        self.found = collections.defaultdict(set)
        flows = []
        for key, unit in units.items():
            for member, value in re.findall(r'(?:\.|->)(\w+)\s*=\s*&?(\w+)\s*[;,}\n]', unit.text):
                self.note(('member', member), key, value)
        for key, name, body, pointers in self.bodies:
            flows += self.look(key, name, body, pointers)
        before = None
        while before != (before := sum(map(len, self.found.values()))):
            for source, target in flows:
                self.found[target] |= self.found[source]

    def read(self, key, text):
        for match in re.finditer(r'^struct (\w+) \{\n(.*?)^\}', text, re.M | re.S):
            for pointer in POINTER.finditer(match.group(2)):
                line = match.group(2)[match.group(2).rfind(';', 0, pointer.start()) + 1:pointer.start()]
                if line.count('(') == line.count(')'):
                    self.places['member', pointer.group(1)].add((key, match.group(1)))
        for match in FUNCTION.finditer(text):
            name = re.search(r'\b(\w+)\(', match.group(1)).group(1)
            arguments = match.group(1)[match.group(1).index('(') + 1:-1]
            self.homes[name].add(key)
            pointers = {number: POINTER.search(item).group(1)
                        for number, item in enumerate(split_list(arguments)) if POINTER.search(item)}
            self.bodies.append((key, name, match.group(4), pointers))
            for number in pointers:
                self.parameters.setdefault(name, set()).add(number)
                self.places[name, number].add((key, name))

    def note(self, target, key, value):
        """A name that the unit defines itself is its own; else one of another unit's is meant."""
        homes = self.homes.get(value, set())
        if key in homes or len(homes) == 1:
            self.found[target].add((key if key in homes else next(iter(homes)), value))

    def look(self, key, name, body, pointers):
        """Notes what it passes to others; returns what it passes on of its own parameters."""
        numbers, flows = {pointer: number for number, pointer in pointers.items()}, []
        for member, value in re.findall(r'(?:\.|->)(\w+)\s*=\s*(\w+)\s*[;,}]', body):
            if value in numbers:
                flows.append(((name, numbers[value]), ('member', member)))
        for match in re.finditer(r'\b(\w+)\(', body):
            if match.group(1) not in self.parameters:
                continue
            depth, end = 1, match.end()
            while end < len(body) and depth:
                depth += (body[end] == '(') - (body[end] == ')')
                end += 1
            items = split_list(body[match.end():end - 1])
            for number in self.parameters[match.group(1)]:
                value = items[number].strip().lstrip('&') if number < len(items) else ''
                if value in numbers:
                    flows.append(((name, numbers[value]), (match.group(1), number)))
                else:
                    self.note((match.group(1), number), key, value)
        return flows

    def leading_up(self):
        """[(unit, what, function, its room)] of those with one implementation, which is above."""
        rows = []
        for target, places in self.places.items():
            if len(self.found[target]) != 1:
                continue
            home, function = next(iter(self.found[target]))
            for key, owner in places:
                what = owner + '.' + target[1] if target[0] == 'member' else owner + '()'
                if FLOOR[home[0]] > FLOOR[key[0]]:
                    rows.append((key, what, function, home[0]))
        return sorted(rows)


def higher_structs(units):
    """{(room, struct): units} of headers that name a struct of a room above."""
    homes = collections.defaultdict(set)
    for key, unit in units.items():
        for name in re.findall(r'^struct (\w+) \{', unit.text, re.M):
            homes[name].add(key[0])
    named = collections.defaultdict(set)
    for key, unit in units.items():
        for name in set(re.findall(r'\bstruct (\w+)', unit.header)):
            if homes[name] and all(FLOOR[home] > FLOOR[key[0]] for home in homes[name]):
                named[key[0], name].add(name_of(key))
    return named


def tested_insides(units):
    """Headers that a unit test of another room includes, and no other room does."""
    users = collections.defaultdict(set)
    for unit in units.values():
        for path in unit.includes:
            users[path].add(unit.room)
    tests, rows = os.path.join(TOP, 'tests', 'unit'), []
    for folder, _, names in os.walk(tests):
        for name in sorted(names):
            for path in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text_of(os.path.join(folder, name)), re.M):
                room, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
                own = os.path.relpath(folder, tests)
                if room and not (own + '/').startswith(room + '/') and \
                        (room_of(room, stem), stem) in units and not users[path] - {room_of(room, stem)}:
                    rows.append('%s/%s includes %s' % (own, name, path))
    return rows


class Tap:
    count = failed = 0

    def check(self, what, wrong):
        self.count += 1
        print('%s %u - %s' % ('not ok' if wrong else 'ok', self.count, what))
        for line in wrong:
            print('# ' + line)
        self.failed += bool(wrong)


def print_rooms(units, references):
    includes, calls = collections.Counter(), collections.Counter()
    for key, unit in units.items():
        for path in unit.includes:
            room, _, name = path.rpartition('/')
            room = room_of(room, os.path.splitext(name)[0])
            if room != unit.room and room in FLOOR:
                includes[unit.room, room] += 1
        for other, functions in references[key].items():
            if other[0] != key[0]:
                calls[key[0], other[0]] += len(functions)
    print('# from room to room: includes / functions named')
    for room in sorted(FLOOR, key=lambda item: (FLOOR[item], item)):
        row = ['%s %u/%u' % (other, includes[room, other], calls[room, other])
               for other in sorted(FLOOR, key=lambda item: (FLOOR[item], item))
               if includes[room, other] or calls[room, other]]
        if row:
            print('#   %-8s -> %s' % (room, ', '.join(row)))
    return includes, calls


def inside_rooms(units, references):
    """{room: (units, references, back up, circles)}, printed."""
    figures = {}
    print('# inside a room: units, references, of them back up, circles by their sizes')
    for room in sorted(FLOOR, key=lambda item: (FLOOR[item], item)):
        graph = {key: {other for other in references[key] if other[0] == room}
                 for key in units if key[0] == room}
        total = sum(len(others) for others in graph.values())
        back = count_back(graph)
        sizes = sorted((len(circle) for circle in find_circles(graph)), reverse=True)
        if total:
            print('#   %-8s %3u units, %3u references, %2u back up (%u %%)%s' % (
                room, len(graph), total, len(back), round(100 * len(back) / total),
                ', circles of ' + ', '.join(map(str, sizes)) if sizes else ''))
        figures[room] = (len(graph), total, back, sizes)
    return figures


def name_of(key):
    return '/'.join(key)


def rule(units, pattern, rooms, allowed):
    """The units that name sockets or events, which belong to other rooms."""
    return ['%s: %s' % (name_of(key), ', '.join(sorted(set(re.findall(pattern, unit.code)))))
            for key, unit in sorted(units.items())
            if key[0] not in rooms and name_of(key) not in allowed and
            re.search(pattern, unit.code)]


def print_tested(units):
    """By room: units of which some unit test calls a function."""
    words, tests = set(), os.path.join(TOP, 'tests', 'unit')
    for folder, _, names in os.walk(tests):
        for name in names:
            if name.endswith(('.c', '.h')):
                words.update(re.findall(r'\b\w+', code_of(text_of(os.path.join(folder, name)))))
    rows = []
    for room in sorted(FLOOR, key=lambda item: (FLOOR[item], item)):
        with_code = [unit for unit in units.values() if unit.room == room and unit.public]
        rows.append('%s %u of %u' % (
            room, sum(bool(unit.public & words) for unit in with_code), len(with_code)))
    print('# units of which a unit test names a function: ' + ', '.join(rows))


def main():
    tap, units = Tap(), read_units()
    strange = sorted({unit.room for unit in units.values()} - set(FLOOR))
    tap.check('each room has a floor', strange)
    units = {key: unit for key, unit in units.items() if unit.room in FLOOR}
    references = find_references(units)
    includes, calls = print_rooms(units, references)
    figures = inside_rooms(units, references)
    print_tested(units)
    graph = {room: {other for one, other in (includes + calls) if one == room} for room in FLOOR}
    tap.check('no circle between rooms', [' <-> '.join(c) for c in find_circles(graph)])
    tap.check('no room names a function of one above it', [
        '%s names %s of %s' % (name_of(key), sorted(functions)[0], name_of(other))
        for key in sorted(units) for other, functions in references[key].items()
        if FLOOR[other[0]] > FLOOR[key[0]] or
        (FLOOR[other[0]] == FLOOR[key[0]] and other[0] != key[0])])
    pointers = Pointers(units)
    up = pointers.leading_up()
    for key, _, _, room in up:
        graph[key[0]].add(room)
    print('# pointers to functions with one implementation, in a room above: %u; circles of rooms that '
          'they make: %s' % (len(up), ', '.join(str(len(c)) for c in find_circles(graph)) or 'none'))
    up = [row for row in up if row[1].partition('.')[0] not in SEAMS]
    print('# of them not of a seam: %u' % len(up))
    tap.check('at most %u pointers lead up to one implementation without a seam' % POINTERS_UP_MOST, [
        '%s: %s is %s of %s' % (name_of(key), what, function, room) for key, what, function, room in up
    ] if len(up) > POINTERS_UP_MOST else [])
    tap.check('no header names a struct of a room above', [
        '%s names struct %s' % (unit, name) for (room, name), names in sorted(higher_structs(units).items())
        for unit in sorted(names) if (room, name) not in HIGHER_STRUCTS])
    insides = tested_insides(units)
    print('# insides of other rooms in unit tests: %u' % len(insides))
    tap.check('at most %u unit tests include insides of another room' % INSIDES_MOST,
              insides if len(insides) > INSIDES_MOST else [])
    tap.check('few references inside a room go back up', [
        '%s: %u of %u' % (room, len(back), total)
        for room, (_, total, back, _) in figures.items()
        if 100 * len(back) > BACK_MOST * total and len(back) > BACK_FEW])
    tap.check('no circle inside a room has over %u units' % CIRCLE_MOST, [
        '%s: circles of %s' % (room, ', '.join(map(str, sizes)))
        for room, (_, _, _, sizes) in figures.items()
        if sizes and sizes[0] > CIRCLE_MOST])
    tap.check('sockets are of net alone', rule(units, SOCKETS, SOCKET_ROOMS, SOCKET_UNITS))
    tap.check("libevent's events are of loop and net alone",
              rule(units, EVENTS, EVENT_ROOMS, EVENT_UNITS))
    tap.check('only net knows what carries a stream', rule(units, STREAM_INSIDE, ['net'], {}))
    tap.check('no struct has over %u fields' % FIELDS_MOST, [
        '%s: %s has %u' % (name_of(key), name, count) for key, unit in sorted(units.items())
        for name, count in unit.structs if count > FIELDS_MOST])
    tap.check('no function has over %u lines' % LINES_MOST, [
        '%s: %s has %u' % (name_of(key), name, count) for key, unit in sorted(units.items())
        for name, count in unit.functions if count > LINES_MOST])
    print('# largest: ' + ', '.join('%s %s with %u %s' % (what, *max(
        (item for unit in units.values() for item in items(unit)), key=lambda item: item[1]), of)
        for what, items, of in (('struct', lambda unit: unit.structs, 'fields'),
                                ('function', lambda unit: unit.functions, 'lines'))))
    if '--back' in sys.argv:
        for room, (_, _, back, _) in figures.items():
            for one, other in back:
                print('# back up: %s names %s of %s' % (
                    name_of(one), ', '.join(sorted(references[one][other])), name_of(other)))
    print('1..%u' % tap.count)
    return 1 if tap.failed else 0


if __name__ == '__main__':
    sys.exit(main())
