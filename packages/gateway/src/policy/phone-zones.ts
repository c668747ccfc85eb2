/**
 * The possible time zones of a phone number, by its country calling code. Every zone of every country that
 * shares the code is meant; of zones that keep the same time from 2026 on, one stands for all.
 *
 * Sources: zone1970.tab of the IANA time zone database, 2025b (public domain); the calling codes of ITU-T E.164
 * and the area codes of the North American Numbering Plan (+1). Three area codes stand beside +1: Guam, the
 * Northern Marianas and American Samoa have a day of their own, and with them hardly an hour would be left for
 * all others. Numbers of no country (+800, +870, …) are not here. Pure.
 */
import { isTimeZone } from '@sluice/limits'

/** Codes and their zones; an indented line continues the one before. */
const table = `
1684 Pacific/Pago_Pago
1671,1670 Pacific/Guam
1 America/New_York America/Chicago America/Denver America/Phoenix America/Los_Angeles America/Anchorage
  America/Adak Pacific/Honolulu America/Puerto_Rico Atlantic/Bermuda America/St_Johns America/Regina
  America/Panama
7 Europe/Kaliningrad Europe/Moscow Europe/Astrakhan Asia/Yekaterinburg Asia/Omsk Asia/Novosibirsk
  Asia/Irkutsk Asia/Chita Asia/Vladivostok Asia/Magadan Asia/Kamchatka
20 Africa/Cairo
27,266,268 Africa/Johannesburg
30 Europe/Athens
31,32,352 Europe/Brussels
33,377 Europe/Paris
34 Europe/Madrid Atlantic/Canary
36 Europe/Budapest
39,378 Europe/Rome
40 Europe/Bucharest
41,49,423 Europe/Zurich
43 Europe/Vienna
44 Europe/London
45,46,47 Europe/Berlin
48 Europe/Warsaw
51 America/Lima
52 America/Mexico_City America/Cancun America/Matamoros America/Ciudad_Juarez America/Mazatlan
  America/Tijuana
53 America/Havana
54 America/Argentina/Buenos_Aires
55 America/Noronha America/Belem America/Campo_Grande America/Eirunepe
56 America/Santiago America/Coyhaique Pacific/Easter
57 America/Bogota
58 America/Caracas
60,673 Asia/Kuching
61 Australia/Lord_Howe Antarctica/Macquarie Australia/Broken_Hill Australia/Brisbane Australia/Darwin
  Australia/Perth Australia/Eucla Asia/Tokyo Asia/Yangon Asia/Bangkok
62 Asia/Jakarta Asia/Makassar Asia/Jayapura
63 Asia/Manila
64 Pacific/Auckland Pacific/Chatham
65 Asia/Singapore
66,84,855,856 Asia/Bangkok
81 Asia/Tokyo
82 Asia/Seoul
86 Asia/Shanghai Asia/Urumqi
90 Europe/Istanbul
91 Asia/Kolkata
92 Asia/Karachi
93 Asia/Kabul
94 Asia/Colombo
95 Asia/Yangon
98 Asia/Tehran
211 Africa/Juba
212 Africa/Casablanca
213 Africa/Algiers
216 Africa/Tunis
218 Africa/Tripoli
220,221,222,223,224,225,226,228,232,233,247,290,354 Africa/Abidjan
227,229,234,236,237,240,241,242,244 Africa/Lagos
230 Indian/Mauritius
231 Africa/Monrovia
235 Africa/Ndjamena
238 Atlantic/Cape_Verde
239 Africa/Sao_Tome
243 Africa/Maputo Africa/Lagos
245 Africa/Bissau
246 Indian/Chagos
248,968,971 Asia/Dubai
249 Africa/Khartoum
250,257,258,260,263,265,267 Africa/Maputo
251,252,253,254,255,256,261,269,291 Africa/Nairobi
262 Asia/Dubai Africa/Nairobi
264 Africa/Windhoek
297,590,599 America/Puerto_Rico
298 Atlantic/Faroe
299 America/Nuuk America/Danmarkshavn America/Thule
350 Europe/Gibraltar
351 Europe/Lisbon Atlantic/Azores
353 Europe/Dublin
355 Europe/Tirane
356 Europe/Malta
357 Asia/Nicosia
358 Europe/Helsinki
359 Europe/Sofia
370 Europe/Vilnius
371 Europe/Riga
372 Europe/Tallinn
373 Europe/Chisinau
374 Asia/Yerevan
375 Europe/Minsk
376 Europe/Andorra
380 Europe/Simferopol Europe/Kyiv
381,382,383,385,386,387,389 Europe/Belgrade
420,421 Europe/Prague
500 Atlantic/Stanley
501 America/Belize
502 America/Guatemala
503 America/El_Salvador
504 America/Tegucigalpa
505 America/Managua
506 America/Costa_Rica
507 America/Panama
508 America/Miquelon
509 America/Port-au-Prince
591 America/La_Paz
592 America/Guyana
593 America/Guayaquil Pacific/Galapagos
594 America/Cayenne
595 America/Asuncion
596 America/Martinique
597 America/Paramaribo
598 America/Montevideo
670 Asia/Dili
672 Pacific/Norfolk
674 Pacific/Nauru
675 Pacific/Port_Moresby Pacific/Bougainville
676 Pacific/Tongatapu
677 Pacific/Guadalcanal
678 Pacific/Efate
679 Pacific/Fiji
680 Pacific/Palau
681,688,692 Pacific/Tarawa
682 Pacific/Rarotonga
683 Pacific/Niue
685 Pacific/Apia
686 Pacific/Tarawa Pacific/Kanton Pacific/Kiritimati
687 Pacific/Noumea
689 Pacific/Tahiti Pacific/Marquesas Pacific/Gambier
690 Pacific/Fakaofo
691 Pacific/Kosrae Pacific/Port_Moresby
850 Asia/Pyongyang
852 Asia/Hong_Kong
853 Asia/Macau
880 Asia/Dhaka
886 Asia/Taipei
960 Indian/Maldives
961 Asia/Beirut
962 Asia/Amman
963 Asia/Damascus
964 Asia/Baghdad
965,966,967 Asia/Riyadh
970 Asia/Gaza
972 Asia/Jerusalem
973,974 Asia/Qatar
975 Asia/Thimphu
976 Asia/Ulaanbaatar Asia/Hovd
977 Asia/Kathmandu
992 Asia/Dushanbe
993 Asia/Ashgabat
994 Asia/Baku
995 Asia/Tbilisi
996 Asia/Bishkek
998 Asia/Samarkand
`

const digitsMax = 4

const zonesByCode = new Map(
  table
    .trim()
    .replace(/\n +/g, ' ')
    .split('\n')
    .flatMap((line) => {
      const [codes = '', ...zones] = line.split(' ')
      return codes.split(',').map((code) => [code, zones] as const)
    }),
)
/** Cache by code: checking that a zone is known costs a tenth of a millisecond. */
const knownByCode = new Map<string, readonly string[]>()

/**
 * Returns the zones of a number in E.164, such as +4930123456; `undefined` where its code belongs to no
 * country.
 */
export function zonesOfPhone(phone: string): readonly string[] | undefined {
  const code = codeOfPhone(phone)?.slice(1)
  if (code === undefined) return undefined
  let known = knownByCode.get(code)
  if (known === undefined) {
    // A machine's database may be older than the table: a new zone is then represented by the one it was
    // split from.
    known = zonesByCode.get(code)!.filter((zone) => isTimeZone(zone))
    knownByCode.set(code, known)
  }
  return known
}

/** Returns the code of a number in E.164 by which its zones are known, such as +49; `undefined` where it has none. */
export function codeOfPhone(phone: string): string | undefined {
  if (!phone.startsWith('+')) return undefined
  // The longest code counts: no code is the beginning of another one, but for +1 and the area codes beside it.
  for (let digits = digitsMax; digits > 0; digits -= 1) {
    const code = phone.slice(1, 1 + digits)
    if (zonesByCode.has(code)) return `+${code}`
  }
  return undefined
}

/** Every code of the table. */
export const phoneCodes: readonly string[] = [...zonesByCode.keys()]
