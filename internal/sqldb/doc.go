// Package sqldb has what a store and a journal in a database share: the dialects
// of SQL, statements that are tried again after lost connections and failovers,
// and tables that one of many processes makes.
//
// It uses database/sql alone and imports no driver.
package sqldb
