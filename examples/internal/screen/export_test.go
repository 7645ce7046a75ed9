package screen

// ColumnsFor is columns.
var ColumnsFor = columns
