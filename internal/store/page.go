package store

import (
	"encoding/base64"
	"strconv"
	"strings"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
)

const maxLimit = 500

// last sorts after every id and every name.
const last = "~"

// pager reads one page of the list it names. A cursor is the sort key of the last item given, with the list's
// name so that one of another list is noticed; it says nothing that the list did not.
type pager struct {
	list  string
	limit int
	parts []string // of the cursor; nil for the first page
}

// pages checks what was asked. parts is how many values make the sort key.
func pages(list string, parts int, p engine.Page) (pager, error) {
	if p.Limit < 1 || p.Limit > maxLimit {
		return pager{}, fault.New(fault.Invalid, "invalid_limit", "A page has 1 to %d items, not %d.", maxLimit, p.Limit)
	}
	g := pager{list: list, limit: p.Limit}
	if p.Cursor == "" {
		return g, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	fields := strings.Split(string(plain), "\x00")
	if err != nil || len(fields) != parts+1 || fields[0] != list {
		return pager{}, badCursor()
	}
	g.parts = fields[1:]
	return g, nil
}

func badCursor() error {
	return fault.New(fault.Invalid, "invalid_cursor", "The cursor does not belong to this list.").
		WithHint("Pass on what the answer before gave as the next cursor, unchanged, or start without one.")
}

// count is one more than the page, to see whether there is another.
func (g pager) count() int32 { return int32(g.limit) + 1 }

// text is the i-th value of the cursor, or start for the first page.
func (g pager) text(i int, start string) string {
	if g.parts == nil {
		return start
	}
	return g.parts[i]
}

// number is the cursor's only value, or start for the first page.
func (g pager) number(start int64) (int64, error) {
	if g.parts == nil {
		return start, nil
	}
	n, err := strconv.ParseInt(g.parts[0], 10, 64)
	if err != nil {
		return 0, badCursor()
	}
	return n, nil
}

// page makes items of rows, and the cursor of the next page where there is one.
func page[Row, Item any](g pager, rows []Row, item func(Row) (Item, error), key func(Row) []string) ([]Item, string, error) {
	next := ""
	if len(rows) > g.limit {
		rows = rows[:g.limit]
		fields := append([]string{g.list}, key(rows[len(rows)-1])...)
		next = base64.RawURLEncoding.EncodeToString([]byte(strings.Join(fields, "\x00")))
	}
	items, err := each(rows, item)
	return items, next, err
}

func each[Row, Item any](rows []Row, item func(Row) (Item, error)) ([]Item, error) {
	items := make([]Item, 0, len(rows))
	for _, row := range rows {
		i, err := item(row)
		if err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, nil
}

// pattern is for LIKE with ESCAPE '!' on a column in lower case: a part of it, without regard to ASCII case.
func pattern(query string) (string, error) {
	const longest = 256 // no name is longer, and SQLite has a limit of its own
	if len(query) > longest {
		return "", fault.New(fault.Invalid, "invalid_query", "A search has at most %d bytes, this one %d.", longest, len(query))
	}
	lower := []byte(query)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(string(lower)) + "%", nil
}
