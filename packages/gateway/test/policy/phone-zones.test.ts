import assert from 'node:assert/strict'
import { test } from 'node:test'
import { phoneCodes, zonesOfPhone } from '../../src/policy/phone-zones.ts'

const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const format =
    formats.get(timeZone) ?? new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' })
  formats.set(timeZone, format)
  return format
}

/** The distinct offsets of these zones at an instant, in hours from UTC, from west to east. */
function offsets(zones: readonly string[] | undefined, instant: number): readonly number[] {
  const hours = (zones ?? []).map((timeZone) => {
    const [, sign, hour, minute = '0'] =
      /GMT([+-])(\d+):?(\d+)?/.exec(formatOf(timeZone).format(instant)) ?? []
    return sign === undefined ? 0 : Number(`${sign}1`) * (Number(hour) + Number(minute) / 60)
  })
  return [...new Set(hours)].sort((a, b) => a - b)
}
const winter = Date.UTC(2027, 0, 15)
const summer = Date.UTC(2027, 6, 15)

test('the zones of a number are all zones of every country that shares its code', () => {
  assert.deepEqual(offsets(zonesOfPhone('+390612345678'), winter), [1])
  assert.deepEqual(offsets(zonesOfPhone('+390612345678'), summer), [2])
  assert.deepEqual(offsets(zonesOfPhone('+34911234567'), winter), [0, 1])
  assert.deepEqual(offsets(zonesOfPhone('+351211234567'), winter), [-1, 0])
  assert.deepEqual(offsets(zonesOfPhone('+5511912345678'), winter), [-5, -4, -3, -2])
  // Russia and Kazakhstan.
  assert.deepEqual(offsets(zonesOfPhone('+77011234567'), winter), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  // Honolulu to St. John's, whatever the area code: a mobile number is carried from coast to coast.
  for (const area of ['212', '415', '416', '709', '787', '876', '808'])
    assert.deepEqual(offsets(zonesOfPhone(`+1${area}5550100`), winter), [-10, -9, -8, -7, -6, -5, -4, -3.5])
  assert.deepEqual(offsets(zonesOfPhone('+16715550100'), winter), [10])
  assert.deepEqual(offsets(zonesOfPhone('+16845550100'), winter), [-11])
})

test('the zones of a code have the offsets of all its countries at any time of the year', () => {
  // Each of these has an offset of its own for a while, and one zone of the table has to have it too.
  const members: Readonly<Record<string, readonly string[]>> = {
    '+1': [
      'America/Detroit',
      'America/Toronto',
      'America/Halifax',
      'America/Nassau',
      'America/Jamaica',
      'America/Boise',
    ],
    '+44': ['Europe/London', 'Europe/Jersey', 'Europe/Isle_of_Man'],
    '+47': ['Europe/Oslo', 'Arctic/Longyearbyen'],
    '+52': [
      'America/Monterrey',
      'America/Hermosillo',
      'America/Tijuana',
      'America/Cancun',
      'America/Ojinaga',
    ],
    '+61': ['Australia/Sydney', 'Australia/Adelaide', 'Australia/Perth', 'Indian/Christmas', 'Indian/Cocos'],
    '+62': ['Asia/Jakarta', 'Asia/Makassar', 'Asia/Jayapura', 'Asia/Pontianak'],
    '+7': ['Asia/Almaty', 'Asia/Krasnoyarsk', 'Europe/Samara', 'Asia/Sakhalin', 'Asia/Yakutsk'],
  }
  for (const [code, zones] of Object.entries(members)) {
    const known = zonesOfPhone(`${code}5550100`)!
    for (const zone of zones) {
      const keeps = (other: string): boolean => {
        for (let day = 0; day < 730; day += 1) {
          const at = Date.UTC(2026, 5, 1 + day, 12)
          if (offsets([zone], at)[0] !== offsets([other], at)[0]) return false
        }
        return true
      }
      const likely = known.filter(
        (other) =>
          offsets([other], winter)[0] === offsets([zone], winter)[0] &&
          offsets([other], summer)[0] === offsets([zone], summer)[0],
      )
      assert.ok(likely.some(keeps), `${zone} of ${code}`)
    }
  }
})

test('each code has a zone that this machine knows, and a number of no country has none', () => {
  for (const code of phoneCodes) assert.ok((zonesOfPhone(`+${code}5550100`) ?? []).length > 0, code)
  for (const phone of ['+80012345678', '+87012345678', '+999123456', '0612345678', '+', ''])
    assert.equal(zonesOfPhone(phone), undefined, phone)
})
