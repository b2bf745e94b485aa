#!/usr/bin/env python3
"""HACKING.md and docs/dev name files, folders and functions that there are, and the map has each room. TAP.

A path is looked for in the source and in the folders that HACKING leaves out of its paths
(`gate/roster.h` is in proxy/, `ends.c` anywhere). A word with an underscore is a name of the code or
of an option; a name with `()` is a pattern. In the request's way, a row that begins with a file
names a function that this file defines.
"""
import fnmatch
import glob
import os
import re
import sys

TOP = os.environ.get('top_srcdir', os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
ROOTS = ['throttle', 'proxy', 'demo', 'docs', 'etc', 'tests', 'docker', 'debian', '.ci']
# In text of HACKING, but not of the source.
ELSEWHERE = {'HTTP/1', 'HTTP/2', 'limits/NAME'}
ENDINGS = ('.c', '.h', '.py', '.sh', '.md', '.ini', '.json')


def find_source():
    """Paths of all files and folders from the top, and the text of those that are code."""
    paths, texts = set(), {}
    for root in ROOTS:
        for folder, _, names in os.walk(os.path.join(TOP, root)):
            paths.add(os.path.relpath(folder, TOP))
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), TOP)
                paths.add(path)
                if name.endswith(('.c', '.h', '.py', '.inc')):
                    with open(os.path.join(TOP, path), encoding='utf-8', errors='replace') as file:
                        texts[path] = file.read()
    paths.update(name for name in os.listdir(TOP) if os.path.isfile(os.path.join(TOP, name)))
    return paths, texts


def is_there(paths, name):
    """Is it a file or folder, or a module (`http/head_scan`)?"""
    # ROOM, [ch] and * stand for any.
    pattern = '*/' + re.sub(r'[A-Z]{3,}(?=/)', '*', name.rstrip('/'))
    return any(fnmatch.fnmatch('/' + path, end) for path in paths
               for end in (pattern, pattern + '.h'))


def find_missing(words, paths, names):
    missing = []
    for word in sorted(words):
        word = re.sub(r'^\./', '', word).rstrip('./,')
        if word in ELSEWHERE:
            continue
        if '/' in word or word.endswith(ENDINGS):
            # A program of the tests is named without its ending.
            if not is_there(paths, word) and not is_there(paths, word + '.c'):
                missing.append(word)
        elif re.fullmatch(r'[A-Za-z]\w*_\w+', word) and word not in names:
            missing.append(word)
    return missing


def words_of(text):
    return re.findall(r'[\w./*\[\]-]+(?![\w(]*\(\))', text)


def misplaced(way, texts):
    """Rows of the request's way that name no function of their file."""
    rows = re.findall(r'^(\w+/\w+\.[ch]) +(.*(?:\n .*)*)', way, re.M)
    wrong = [] if rows else ['it has no rows']
    for path, row in rows:
        text = texts.get('proxy/' + path, '')
        if not any(re.search(r'^\w.*\b%s\(' % name, text, re.M)
                   for name in re.findall(r'\w+_\w+', row)):
            wrong.append(path)
    return wrong


def main():
    pages = [os.path.join(TOP, 'HACKING.md'), *sorted(glob.glob(os.path.join(TOP, 'docs/dev/*.md')))]
    text = ''
    for page in pages:
        with open(page, encoding='utf-8') as file:
            text += file.read()
    paths, texts = find_source()
    names = set(re.findall(r'\w+', '\n'.join(texts.values())))
    blocks = re.findall(r'^```\n(.*?)^```', text, re.M | re.S)
    prose = re.sub(r'^```\n.*?^```', '', text, flags=re.M | re.S)
    rooms = next(block for block in blocks if block.startswith('throttle/'))
    way = next(block for block in blocks if block.startswith('listen/'))
    quoted = ' '.join(re.findall(r'`([^`]+)`', prose))
    first = re.findall(r'^[\w./]+', rooms, re.M)
    checks = [
        ('each room is on the map', sorted(
            path for path in paths
            if re.fullmatch(r'proxy/\w+', path) and path + '/' not in first)),
        ('what is on the map is there', find_missing(words_of(rooms), paths, names)),
        ("the files and functions of a request's way are there",
         find_missing(words_of(way), paths, names)),
        ("a row of a request's way names a function of its file", misplaced(way, texts)),
        ('the files and names in the text are there',
         find_missing(words_of(quoted), paths, names)),
    ]
    for number, (what, wrong) in enumerate(checks, 1):
        print('%s %u - %s' % ('not ok' if wrong else 'ok', number, what))
        for line in wrong:
            print('# ' + line)
    print('1..%u' % len(checks))
    return 1 if any(wrong for _, wrong in checks) else 0


if __name__ == '__main__':
    sys.exit(main())
