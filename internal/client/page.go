package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"holdfast.dev/holdfast/internal/api"
)

// pageSize is asked for when all of a list is wanted; the server may answer fewer.
const pageSize = 200

// Page is which part of a list is wanted, and how much of it.
type Page struct {
	Limit  int    // items; zero leaves it to the server
	Cursor string // the Next of the page before
}

func (p Page) into(query url.Values) url.Values {
	if query == nil {
		query = url.Values{}
	}
	if p.Limit > 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	return query
}

// list gets one page.
func list[T any](ctx context.Context, c *Client, path string, query url.Values, page Page) (api.List[T], error) {
	var out api.List[T]
	err := c.get(ctx, path, page.into(query), &out)
	return out, err
}

// All goes through a list of any length, page by page as it is read. most bounds the items; zero is all of them.
func All[T any](ctx context.Context, most int, get func(ctx context.Context, page Page) (api.List[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for page, seen := (Page{}), 0; ; {
			page.Limit = pageSize
			if most > 0 {
				page.Limit = min(pageSize, most-seen)
			}
			got, err := get(ctx, page)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range got.Items {
				if !yield(item, nil) {
					return
				}
				if seen++; seen == most {
					return
				}
			}
			if got.Next == "" || got.Next == page.Cursor {
				return
			}
			page.Cursor = got.Next
		}
	}
}

// Collect is a list as a slice, which is never nil.
func Collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// filter makes a query of pairs, leaving out empty values.
func filter(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// set is how a query says true; false is left out.
func set(b bool) string {
	if b {
		return "true"
	}
	return ""
}
