// Package db is written by sqlc from the statements in ../queries; only this file is by hand.
package db
