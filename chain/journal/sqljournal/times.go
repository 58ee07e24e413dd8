package sqljournal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

func encodeTimes(t journal.Times) []byte {
	list := make(journal.Sizes, 0, len(t))
	for _, bucket := range slices.Sorted(maps.Keys(t)) {
		list = append(list, journal.SizeCount{Bucket: bucket, Count: t[bucket]})
	}
	return encodeSizes(list)
}

// encodeSizes writes each bucket as its distance from the previous one and its count.
func encodeSizes(s journal.Sizes) []byte {
	data, before := make([]byte, 0, 3*len(s)), 0
	for _, c := range s {
		data = binary.AppendUvarint(data, uint64(c.Bucket-before))
		data = binary.AppendUvarint(data, uint64(c.Count))
		before = c.Bucket
	}
	return data
}

// errDamaged reports a stored value that this package could not have written.
var errDamaged = errors.New("the database is damaged")

var errTimes = fmt.Errorf("%w: the durations and sizes of a day cannot be read", errDamaged)

// maxBucket is far above the bucket of the longest time.Duration.
const maxBucket = 1 << 20

func decodeTimes(data []byte) (journal.Times, error) {
	list, err := decodeSizes(data)
	if err != nil {
		return nil, err
	}
	t := journal.Times{}
	for _, c := range list {
		t[c.Bucket] += c.Count
	}
	return t, nil
}

func decodeSizes(data []byte) (list journal.Sizes, err error) {
	bucket := uint64(0)
	for len(data) > 0 {
		distance, size := binary.Uvarint(data)
		if size <= 0 || distance > maxBucket || bucket+distance > maxBucket {
			return nil, errTimes
		}
		data, bucket = data[size:], bucket+distance
		count, size := binary.Uvarint(data)
		if size <= 0 {
			return nil, errTimes
		}
		data = data[size:]
		list = append(list, journal.SizeCount{Bucket: int(bucket), Count: int64(count)})
	}
	return list, nil
}
