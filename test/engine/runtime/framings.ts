/**
 * Request framings, good and bad, for the tests of all ports. A bad one is refused by withStrictFraming or by uWebSockets.js
 * (marked `library`), so that a newer library which becomes lenient is noticed.
 */

// biome-ignore format: tables
export const HEADERS_GOOD: [name: string, head: string, body: string][] = [
  ['no body',                        '',                                          ''],
  ['a length',                       'Content-Length: 3\r\n',                     'abc'],
  ['a length of 0',                  'Content-Length: 0\r\n',                     ''],
  ['a length with leading zeros',    'Content-Length: 003\r\n',                   'abc'],
  ['blanks around a length',         'Content-Length: \t 3 \t\r\n',               'abc'],
  ['a name in capitals',             'CONTENT-LENGTH: 3\r\n',                     'abc'],
]

// biome-ignore format: tables
export const HEADERS_BAD: [name: string, head: string, body: string][] = [
  ['two lengths, the first longer',  'Content-Length: 3\r\nContent-Length: 0\r\n',                        'abc'],
  ['two lengths, the first shorter', 'Content-Length: 0\r\nContent-Length: 3\r\n',                        'abc'],
  ['two equal lengths',              'Content-Length: 3\r\nContent-Length: 3\r\n',                        'abc'],
  ['two lengths far apart',          `Content-Length: 3\r\n${'X-A: b\r\n'.repeat(50)}content-length: 0\r\n`, 'abc'],
  ['an empty length',                'Content-Length:\r\n',                                               ''],
  ['an empty length, then another',  'Content-Length: \r\nContent-Length: 3\r\n',                         'abc'],
  ['library: a list of lengths',     'Content-Length: 3, 3\r\n',                                          'abc'],
  ['library: +3',                    'Content-Length: +3\r\n',                                            'abc'],
  ['library: -3',                    'Content-Length: -3\r\n',                                            'abc'],
  ['library: 0x3',                   'Content-Length: 0x3\r\n',                                           'abc'],
  ['library: 3.0',                   'Content-Length: 3.0\r\n',                                           'abc'],
  ['library: 3 0',                   'Content-Length: 3 0\r\n',                                           'abc'],
  ['library: a length, then chunked', 'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n',              '0\r\n\r\n'],
  ['library: chunked, then a length', 'Transfer-Encoding: chunked\r\nContent-Length: 3\r\n',              '0\r\n\r\n'],
  ['chunked, then an empty length',  'Transfer-Encoding: chunked\r\nContent-Length:\r\n',                 '0\r\n\r\n'],
  ['an empty encoding',              'Transfer-Encoding:\r\n',                                            ''],
  ['an empty encoding, and a length', 'Transfer-Encoding:\r\nContent-Length: 3\r\n',                      'abc'],
  ['xchunked',                       'Transfer-Encoding: xchunked\r\n',                                   '0\r\n\r\n'],
  ['chunkedx',                       'Transfer-Encoding: chunkedx\r\n',                                   '0\r\n\r\n'],
  ['"chunked"',                      'Transfer-Encoding: "chunked"\r\n',                                  '0\r\n\r\n'],
  ['chunked;q=1',                    'Transfer-Encoding: chunked;q=1\r\n',                                '0\r\n\r\n'],
  ['chunked, identity',              'Transfer-Encoding: chunked, identity\r\n',                          '0\r\n\r\n'],
  ['identity, chunked',              'Transfer-Encoding: identity, chunked\r\n',                          '0\r\n\r\n'],
  ['gzip, chunked',                  'Transfer-Encoding: gzip, chunked\r\n',                              '0\r\n\r\n'],
  ['identity',                       'Transfer-Encoding: identity\r\n',                                   '0\r\n\r\n'],
  ['gzip',                           'Transfer-Encoding: gzip\r\n',                                       '0\r\n\r\n'],
  ['chunked twice',                  'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',      '0\r\n\r\n'],
  ['chunked, then identity',         'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n',     '0\r\n\r\n'],
  ['identity, then chunked',         'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n',     '0\r\n\r\n'],
  ['library: a vertical tab',        'Transfer-Encoding: \x0bchunked\r\n',                                '0\r\n\r\n'],
  ['library: a blank before a colon', 'Transfer-Encoding : chunked\r\n',                                  '0\r\n\r\n'],
  ['library: a blank before a name', ' Content-Length: 3\r\n',                                            'abc'],
  ['library: a folded length',       'Content-Length:\r\n 3\r\n',                                         'abc'],
  ['library: a folded line',         'X-A: b\r\n Content-Length: 3\r\n',                                  'abc'],
  ['library: a line feed alone',     'X-A: b\nContent-Length: 3\r\n',                                     'abc'],
  ['library: a NUL',                 'X-A: b\0\r\nContent-Length: 3\r\n',                                 'abc'],
  ['library: a line without a colon', 'X-A\r\nContent-Length: 3\r\n',                                     'abc'],
]

// biome-ignore format: tables
export const CHUNKED_GOOD: [name: string, chunked: string, body: string][] = [
  ['one chunk',                      '3\r\nabc\r\n0\r\n\r\n',               'abc'],
  ['many chunks',                    '1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n', 'abc'],
  ['no chunk',                       '0\r\n\r\n',                           ''],
  ['hexadecimal sizes',              'A\r\n0123456789\r\nb\r\n0123456789x\r\n0\r\n\r\n', '01234567890123456789x'],
]

/** What the library's decoder reads as chunks all the same; RFC 9112 7.1 does not. */
// biome-ignore format: tables
export const CHUNKED_BAD: [name: string, chunked: string][] = [
  ['no line break after a chunk',    '3\r\nabcXX0\r\n\r\n'],
  ['a line feed after a chunk',      '3\r\nabc\n\n0\r\n\r\n'],
  ['a line feed after a size',       '3\nabc\r\n0\r\n\r\n'],
  ['no line break at the end',       '3\r\nabc\r\n0\r\nXX'],
  ['text after a size',              '3 xx\r\nabc\r\n0\r\n\r\n'],
  ['a size without digits',          '\r\nX\r\n'],
  ['a blank before a size',          ' 3\r\nXX'],
  ['a colon for a digit',            ':\r\n0123456789\r\n0\r\n\r\n'],
  ['trailers',                       '3\r\nabc\r\n0\r\nX-A: b\r\n\r\n'],
  ['a size that is no number',       'zz\r\nabc\r\n0\r\n\r\n'],
  ['a size of 65 bits',              '10000000000000003\r\nabc\r\n0\r\n\r\n'],
]
